"""`penstock demo` with everything real: brokers, cars, Spark, the gateway and the console."""

from __future__ import annotations

import json
import os
import re
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.support.commands import penstock
from tests.support.demo import PENSTOCK, DemoProcess
from tests.support.managed_process import SOURCE
from tests.support.ports import free_port, free_ports

pytestmark = pytest.mark.spark

ALL_COUNTED = re.compile(r"counted ([\d,]+) of \1 positions, 0 lost, 0 twice")
BROKERS = 3


def own_ports() -> list[str]:
    return ["--port", str(free_ports(BROKERS)), "--http-port", str(free_port())]


def address(demo: DemoProcess) -> str:
    """Of the console."""
    return demo.wait_for("console http://").split()[1].rstrip("/")


@pytest.mark.timeout(600)
def test_cars_light_up_the_map_while_a_leader_is_killed_and_every_position_is_counted(tmp_path: Path) -> None:
    ports = own_ports()
    with DemoProcess(tmp_path, PENSTOCK, "--seconds", "8", "--cars", "300", *ports) as demo:
        url = address(demo)
        assert url.endswith(ports[-1])
        with urllib.request.urlopen(f"{url}/v1/cluster", timeout=10) as answer:
            assert len(json.loads(answer.read())["brokers"]) == BROKERS
        demo.wait_for("the map is live", timeout_s=200)
        killed = penstock("cluster", "kill", "leader:traffic.r0.c0", "--http", url)
        assert "SIGKILL" in killed.lines[0]
        demo.wait_for(" ended")
        assert demo.wait(timeout_s=240) == 0
        demo.wait_until_nothing_is_left(timeout_s=0)
        assert demo.errors == ""
        (counted,) = filter(None, map(ALL_COUNTED.fullmatch, demo.lines))
        assert int(counted[1].replace(",", "")) > 0
        assert re.search(r"flights: 20,000 itineraries in .* q1 \d.* q4 \d.*average fare", demo.output)


def test_without_spark_the_map_stays_dark_and_says_why(tmp_path: Path) -> None:
    """As after `pip install penstock`."""
    absent = tmp_path / "absent" / "pyspark"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ImportError('there is no pyspark here')\n")
    environment = {"PYTHONPATH": f"{absent.parent}{os.pathsep}{SOURCE}"}
    with DemoProcess(tmp_path, PENSTOCK, "--seconds", "1", *own_ports(), environment=environment) as demo:
        assert demo.wait() == 1
        assert address(demo)
        demo.wait_for("the map stays dark; the cluster, the cars and the console go on")
        demo.wait_for("cars are on the road")
        assert "the heat map could not run: needs pip install 'penstock[spark]'" in demo.errors
        assert demo.errors.count("\n") == 1


def test_a_port_that_is_wanted_and_taken(tmp_path: Path) -> None:
    taken = free_port()
    with socket.create_server(("127.0.0.1", taken)):
        refused = penstock("demo", "--http-port", str(taken), "--port", "0")
    assert refused.complaint == f"--http-port {taken}: port {taken} is taken"
