"""`penstock demo` with everything real: brokers, cars, Spark, the gateway and the console."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from penstock.demo.plan import PENSTOCK as PART
from tests.support.commands import penstock
from tests.support.demo import PENSTOCK, DemoProcess
from tests.support.managed_process import environment_with
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
    with DemoProcess(tmp_path, PENSTOCK, "--seconds", "8", "--cars", "60", *ports) as demo:
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


@pytest.mark.parametrize("command", [("traffic", "heatmap"), ("flights", "serve")])
def test_without_spark_its_parts_say_why_they_cannot_run(tmp_path: Path, command: tuple[str, str]) -> None:
    """As after `pip install penstock`. What the demo makes of it is in test_demo_parts.py."""
    absent = tmp_path / "absent" / "pyspark"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ImportError('there is no pyspark here')\n")
    ended = subprocess.run(
        [*PART, *command],
        cwd=tmp_path,
        env=environment_with(absent.parent),
        capture_output=True,
        timeout=60,
        text=True,
    )
    assert ended.returncode == 1
    assert ended.stderr == "penstock: needs pip install 'penstock[spark]' (there is no pyspark here)\n"


def test_a_port_that_is_wanted_and_taken(tmp_path: Path) -> None:
    taken = free_port()
    with socket.create_server(("127.0.0.1", taken)):
        refused = penstock("demo", "--http-port", str(taken), "--port", "0")
    assert refused.complaint == f"--http-port {taken}: port {taken} is taken"
