"""The gateway that `penstock up` brings: a process beside the node, which lives and ends with it."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.broker import BrokerProcess
from tests.support.commands import penstock
from tests.support.ports import free_port
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """For tests that leave it running, with a gateway."""
    with BrokerProcess(tmp_path_factory.mktemp("with-gateway"), with_gateway=True) as started:
        yield started


def gateway_of(broker: BrokerProcess) -> psutil.Process | None:
    for child in psutil.Process(broker.pid).children():
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if "gateway" in child.cmdline():
                return child
    return None


def answers(broker: BrokerProcess) -> bool:
    try:
        with urllib.request.urlopen(f"{broker.http}/healthz", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_ready_line_and_clean_stop(tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        broker = BrokerProcess(tmp_path, with_gateway=True).start()
        assert broker.wait_ready() == f"ready kafka={broker.bootstrap} http={broker.http}"
        gateway = gateway_of(broker)
        assert gateway is not None
        assert answers(broker)
        broker.signal(number)
        assert broker.wait() == 0
        assert not gateway.is_running()
        assert "Traceback" not in broker.log


def test_the_state_of_the_cluster_is_there(broker: BrokerProcess) -> None:
    with urllib.request.urlopen(f"{broker.http}/v1/cluster", timeout=10) as response:
        told = json.loads(response.read())
    assert [each["pid"] for each in told["brokers"]] == [broker.pid]


def test_figures_of_gateway_and_node(broker: BrokerProcess) -> None:
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=10) as response:
        figures = response.read().decode()
    assert "penstock_batches_appended_total" in figures
    assert "process_resident_memory_bytes" in figures


def test_commands_send_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read let-me-look-please\n")
    options = ("cluster", "status", "--json")
    with BrokerProcess(tmp_path, "--http-token-file", str(tokens), with_gateway=True) as broker:
        refused = penstock(*options, broker=broker)
        assert refused.complaint == f"{broker.http} wants a token: set PENSTOCK_TOKEN"
        monkeypatch.setenv("PENSTOCK_TOKEN", "let-me-look-please")
        told = penstock(*options, broker=broker)
        assert json.loads(told.out)["brokers"][0]["pid"] == broker.pid


def test_a_killed_gateway_is_back_on_the_same_port(broker: BrokerProcess) -> None:
    for _ in range(2):
        gateway = gateway_of(broker)
        assert gateway is not None
        gateway.kill()
        gateway.wait(10)
        wait_until(lambda: answers(broker), "the gateway is back", timeout_s=30.0)


def test_it_ends_with_a_node_that_is_killed(broker: BrokerProcess) -> None:
    gateway = gateway_of(broker)
    assert gateway is not None
    broker.kill()
    wait_until(lambda: not gateway.is_running(), "the gateway has ended")
    broker.start()
    assert answers(broker)


def test_a_signal_while_the_gateway_starts_is_a_clean_stop(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, with_gateway=True)
    broker.spawn()
    wait_until(lambda: gateway_of(broker), "the process of the gateway")
    broker.signal(signal.SIGTERM)
    assert broker.wait() == 0
    assert "Traceback" not in broker.log


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        refused = penstock(
            "up", "--data", str(tmp_path), "--port", str(free_port()), "--http-port", str(port)
        )
    assert refused.code == 1
    assert f"127.0.0.1:{port}" in refused.complaint


def test_other_machines_need_tokens(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, "--host", "0.0.0.0", "--insecure", with_gateway=True)
    with broker:
        assert broker.wait_ready() == f"ready kafka=0.0.0.0:{broker.port} http={broker.http}"
        assert gateway_of(broker) is not None
