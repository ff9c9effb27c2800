"""`penstock up` from its start to its end, and everything that keeps it from starting."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.commands import Finished, penstock
from tests.support.ports import free_port, free_ports
from tests.support.wait import wait_until


def refused_up(data: Path, *options: str) -> Finished:
    ports = ["--port", str(free_port()), "--http-port", str(free_port())]
    return penstock("up", "--data", str(data), *ports, *options)


def get(address: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_ready_line_and_clean_stop(tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        broker = BrokerProcess(tmp_path).start()
        assert broker.wait_ready() == f"ready kafka={broker.bootstrap} http={broker.http}"
        broker.signal(number)
        assert broker.wait() == 0
        assert "\x1b" not in broker.log


def test_others_can_read_nothing(tmp_path: Path) -> None:
    """Also when the folder was made before, with the modes of its time."""
    broker = BrokerProcess(tmp_path)
    broker.data.mkdir(mode=0o755)
    with broker:
        assert penstock("topics", "create", "t", broker=broker).code == 0
        assert open_to_others(broker.data) == []
        broker.data.chmod(0o755)
        broker.restart(clean=True)
        assert open_to_others(broker.data) == []


def open_to_others(folder: Path) -> list[Path]:
    return [path for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o077]


@pytest.mark.parametrize("storage", ["postgres:/me:secret@host", "postgresql//me:secret@host"])
def test_a_password_is_not_repeated(tmp_path: Path, storage: str) -> None:
    refused = refused_up(tmp_path, "--storage", storage)
    assert refused.code == 2
    assert "secret" not in refused.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_is_a_clean_stop_too(tmp_path: Path, number: signal.Signals) -> None:
    broker = BrokerProcess(tmp_path)
    broker.spawn()
    # The interpreter has Penstock's handlers, and the node none of its own yet.
    wait_until(lambda: caught_signals(broker.pid) >> (number - 1) & 1, "handlers of signals")
    broker.signal(number)
    assert broker.wait() == 0
    assert "Traceback" not in broker.log
    with broker:
        assert penstock("topics", "list", broker=broker).code == 0


def caught_signals(pid: int) -> int:
    """The signals for which a process has handlers, as bits. Python itself begins with SIGINT."""
    status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    mask = int(status["SigCgt"], 16)
    return mask if mask >> (signal.SIGTERM - 1) & 1 else 0


def test_other_machines_are_listened_to_only_when_that_is_meant(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        assert f"{host} can be reached" in refused_up(tmp_path, "--host", host).usage_complaint
    file = tmp_path / "node.toml"
    for lines in ('listeners = "0.0.0.0:0"', 'http_host = "0.0.0.0"'):
        file.write_text(lines)
        assert "--insecure" in refused_up(tmp_path, "--config", str(file)).usage_complaint
        assert "--insecure" in penstock("broker", "--config", str(file)).usage_complaint
    assert list(tmp_path.iterdir()) == [file]


def test_a_cluster_on_all_addresses_is_meant_again_at_every_start(tmp_path: Path) -> None:
    port = free_ports(2)
    options = ("--brokers", "2", "--host", "0.0.0.0", "--insecure")
    with BrokerProcess(tmp_path, *options, port=port, with_gateway=True) as cluster:
        assert penstock("topics", "list", broker=cluster).code == 0
        assert cluster.terminate() == 0
        assert "--insecure" in refused_up(cluster.data, "--brokers", "2").usage_complaint


def test_a_node_on_all_addresses_tells_its_name(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--host", "0.0.0.0", "--insecure") as broker:
        assert broker.wait_ready() == (
            f"ready kafka=0.0.0.0:{broker.port} http=http://127.0.0.1:{broker.http_port}"
        ), "the admin endpoint asks for no token, and stays on this machine"
        told = json.loads(get(f"{broker.http}/v1/cluster")[1])["brokers"][0]
        assert (told["host"], told["port"]) == (socket.gethostname(), broker.port)


def test_a_node_on_all_addresses_tells_what_its_file_says(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('advertised = "broker-1.example.org:19092"\n')
    with BrokerProcess(tmp_path, "--host", "0.0.0.0", "--insecure", "--config", str(file)) as broker:
        told = json.loads(get(f"{broker.http}/v1/cluster")[1])["brokers"][0]
        assert (told["host"], told["port"]) == ("broker-1.example.org", 19_092)


def test_idle_connections_do_not_shut_out_health_checks(broker: BrokerProcess) -> None:
    with ExitStack() as idle:
        for _ in range(150):
            idle.enter_context(socket.create_connection(("127.0.0.1", broker.http_port), timeout=10))
        assert get(f"{broker.http}/healthz")[0] == 200


def test_port_0_is_any_free_port(tmp_path: Path) -> None:
    command = BrokerProcess(tmp_path).command()
    for option in ("--port", "--http-port"):
        command[command.index(option) + 1] = "0"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.fullmatch(
            r"ready kafka=(127\.0\.0\.1:\d+) http=http://127\.0\.0\.1:\d+\n", process.stdout.readline()
        )
        assert found
        assert penstock("topics", "list", "--bootstrap", found[1]).code == 0
    finally:
        process.terminate()
        assert process.wait(20) == 0
        process.stdout.close()


def test_without_http(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--no-http") as broker:
        assert broker.wait_ready() == f"ready kafka={broker.bootstrap}"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", broker.http_port), timeout=5)


def test_memory_storage_leaves_no_files(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--storage", "memory") as broker:
        penstock("produce", "t", broker=broker, stdin="a\n")
        assert penstock("consume", "t", "-n", "1", broker=broker).lines == ["a"]
        assert not broker.data.exists()


@pytest.mark.parametrize("clean", [True, False])
def test_messages_and_groups_survive_a_restart(broker: BrokerProcess, clean: bool) -> None:
    penstock("produce", "t", broker=broker, stdin="a\nb\n")
    penstock("consume", "t", "--group", "g", "-n", "1", broker=broker)
    broker.restart(clean=clean)
    assert penstock("consume", "t", "-n", "2", broker=broker).lines == ["a", "b"]
    assert penstock("consume", "t", "--group", "g", "-n", "1", broker=broker).lines == ["b"]


def test_a_file_and_options_that_win_over_it(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('listeners = "127.0.0.1:1"\nhttp_port = false\n[topics]\n"retention.ms" = 12345\n')
    with BrokerProcess(tmp_path, "--config", str(file)) as broker:
        penstock("topics", "create", "t", broker=broker)
        config = json.loads(penstock("topics", "config", "t", "--json", broker=broker).lines[0])["config"]
        assert [entry["value"] for entry in config if entry["name"] == "retention.ms"] == ["12345"]
        assert get(f"{broker.http}/healthz")[0] == 200


def test_a_node_from_its_file(tmp_path: Path) -> None:
    port, http_port = free_port(), free_port()
    file = tmp_path / "node.toml"
    file.write_text(
        f'id = 7\nlisteners = "127.0.0.1:{port}"\nhttp_port = {http_port}\ndata = "{tmp_path}/data"\n'
    )
    broker = BrokerProcess(tmp_path, port=port, http_port=http_port)
    command = [*broker.command()[:3], "broker", "--config", str(file)]
    broker.command = lambda: command  # type: ignore[method-assign]
    with broker:
        status = json.loads(penstock("cluster", "status", "--json", broker=broker).lines[0])
        assert [each["id"] for each in status["brokers"]] == [7]


# The admin endpoint


def test_the_endpoint(broker: BrokerProcess) -> None:
    penstock("produce", "t", broker=broker, stdin="a\nb\n")
    for path in ("/healthz", "/readyz"):
        assert get(broker.http + path) == (200, b'{"status": "success"}\n')
    assert b"Penstock" in get(broker.http + "/")[1]
    code, body = get(broker.http + "/nothing")
    assert (code, json.loads(body)["status"]) == (404, "failure")
    metrics = get(broker.http + "/metrics")[1].decode()
    samples = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert int(samples['penstock_requests_total{api="produce"}']) >= 1
    assert int(samples["penstock_batches_appended_total"]) >= 1
    assert int(samples["penstock_received_bytes_total"]) > 0
    assert int(samples["penstock_partitions"]) == 1
    assert int(samples["penstock_log_end_offset_sum"]) == 2


def test_garbage_at_the_endpoint_disturbs_nobody(broker: BrokerProcess) -> None:
    for garbage in (b"\x00" * 100_000, b"GET / HTTP/9\r\n\r\n", os.urandom(5_000), b"\r\n\r\n" * 1_000):
        with socket.create_connection(("127.0.0.1", broker.http_port), timeout=10) as peer:
            try:
                peer.sendall(garbage)
                peer.shutdown(socket.SHUT_WR)
                answer = peer.recv(100)
            except OSError:
                answer = b""
            assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    assert get(f"{broker.http}/healthz")[0] == 200
    assert penstock("topics", "list", broker=broker).code == 0


# What keeps it from starting


def test_a_taken_port(broker: BrokerProcess, tmp_path: Path) -> None:
    other = tmp_path / "other"
    refused = penstock("up", "--data", str(other), "--port", str(broker.port), "--no-http")
    assert refused.complaint == f"cannot listen on {broker.bootstrap}: Address already in use"
    taken = ["--port", str(free_port()), "--http-port", str(broker.port)]
    refused = penstock("up", "--data", str(other), *taken, "--no-gateway")
    assert refused.complaint == f"cannot listen on {broker.bootstrap}: Address already in use"
    refused = penstock("up", "--data", str(other), *taken)
    reason = f"cannot listen on {broker.bootstrap}: Address already in use"
    assert refused.complaint == f"the gateway did not start: {reason}"
    assert penstock("topics", "list", broker=broker).code == 0


def test_a_folder_in_use(broker: BrokerProcess) -> None:
    penstock("produce", "t", broker=broker, stdin="a\n")
    complaint = refused_up(broker.data).complaint
    assert str(broker.data) in complaint
    assert "in use" in complaint
    assert penstock("consume", "t", "-n", "1", broker=broker).lines == ["a"]
    broker.restart()
    assert penstock("consume", "t", "-n", "1", broker=broker).lines == ["a"]


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    refused = refused_up(file / "data")
    assert str(file) in refused.complaint
    assert file.read_text() == "precious"
    # The superuser may write everywhere except where the system itself says no.
    assert (
        "/proc/penstock" in penstock("up", "--data", "/proc/penstock", "--port", str(free_port())).complaint
    )


def test_a_damaged_file_is_named_and_left_as_it_is(broker: BrokerProcess) -> None:
    penstock("produce", "t", broker=broker, stdin="".join(f"{number}\n" for number in range(100)))
    assert broker.terminate() == 0
    damaged = sorted(broker.data.rglob("*__cluster_metadata-0/*.log"))
    assert len(damaged) == 1
    content = bytearray(damaged[0].read_bytes())
    content[70] ^= 0xFF
    damaged[0].write_bytes(content)
    complaint = refused_up(broker.data).complaint
    assert "__cluster_metadata-0" in complaint
    assert damaged[0].read_bytes() == content


def test_a_damaged_configuration(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    for content, expected in (
        ("idd = 1", "unknown key 'idd'"),
        ('[topics]\n"retention.ms" = "soon"', "topics: Invalid value soon for configuration retention.ms"),
    ):
        file.write_text(content)
        for command in ("up", "broker"):
            complaint = penstock(command, "--config", str(file)).complaint
            assert complaint.startswith(f"{file}: {expected}")


def test_a_killed_broker_leaves_the_folder_free(broker: BrokerProcess) -> None:
    broker.kill()
    wait_until(lambda: not broker.running, "the end of the broker")
    broker.start()
    assert penstock("topics", "list", broker=broker).code == 0
