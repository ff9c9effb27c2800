"""What a gateway refuses, as a process: bytes on its socket, and how it may be started."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.support.commands import penstock
from tests.support.gateway import GatewayProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.broker import BrokerProcess

LIMITS = {
    "head_bytes_max": 4_000,
    "request_seconds_max": 1.0,
    "connections_per_address_max": 20,
    "body_bytes_max": 5_000,
}
ANSWER_SECONDS_MAX = 20.0


@pytest.fixture(scope="module")
def gateway(
    shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    options = [part for name, value in LIMITS.items() for part in ("--limit", f"{name}={value}")]
    folder = tmp_path_factory.mktemp("gateway")
    with GatewayProcess(folder, shared_broker.bootstrap, *options) as process:
        yield process


@contextlib.contextmanager
def connected(gateway: GatewayProcess) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=ANSWER_SECONDS_MAX) as connection:
        yield connection


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65_536):
            received += data
    return received


def assert_refused(answer: bytes, status: int) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"content-type: application/json" in head.lower()
    assert orjson.loads(body)["status"] == "failure"


@pytest.mark.parametrize(
    "rubbish", [b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n:\r\n\r\n"]
)
def test_what_is_not_http(gateway: GatewayProcess, rubbish: bytes) -> None:
    with connected(gateway) as connection:
        connection.sendall(rubbish)
        assert_refused(read_to_end(connection), 400)


def test_a_head_that_is_too_long(gateway: GatewayProcess) -> None:
    with connected(gateway) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
            for i in range(200):
                connection.sendall(b"x-%d: %s\r\n" % (i, b"y" * 50))
        assert_refused(read_to_end(connection), 431)


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nhost: lo",
        b"POST /topics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{",
    ],
)
def test_a_request_that_never_ends(gateway: GatewayProcess, beginning: bytes) -> None:
    with connected(gateway) as connection:
        began = time.monotonic()
        connection.sendall(beginning)
        assert_refused(read_to_end(connection), 408)
        assert time.monotonic() - began >= LIMITS["request_seconds_max"] * 0.9


def test_a_body_that_is_too_long(gateway: GatewayProcess) -> None:
    with connected(gateway) as connection:
        connection.sendall(b"POST /topics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5001\r\n\r\n")
        assert_refused(read_to_end(connection), 413)


def test_a_body_in_chunks_that_is_too_long(gateway: GatewayProcess) -> None:
    for path in (b"/topics", b"/producer/produce"):
        with connected(gateway) as connection:
            connection.sendall(
                b"POST %s HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n" % path
            )
            connection.sendall(b"connection: close\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(6):
                    connection.sendall(b"3e8\r\n" + b"x" * 1_000 + b"\r\n")
                connection.sendall(b"0\r\n\r\n")
            assert_refused(read_to_end(connection), 413)


def test_too_many_connections_of_one_address(gateway: GatewayProcess) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connected(gateway)) for _ in range(30)]
        refused = 0
        for connection in idle:
            connection.settimeout(0.1)
            with contextlib.suppress(TimeoutError):
                if connection.recv(12).startswith(b"HTTP/1.1 429"):
                    refused += 1
        assert refused >= 10
    with connected(gateway) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert read_to_end(connection).startswith(b"HTTP/1.1 200")


def test_requests_in_a_row_are_answered_in_order(gateway: GatewayProcess) -> None:
    with connected(gateway) as connection:
        one = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-request-id: %d\r\n%s\r\n"
        connection.sendall(
            b"".join(one % (i, b"connection: close\r\n" if i == 9 else b"") for i in range(10))
        )
        answers = read_to_end(connection)
    assert answers.count(b"HTTP/1.1 200") == 10
    assert [answers.index(b"x-request-id: %d\r\n" % i) for i in range(10)] == sorted(
        answers.index(b"x-request-id: %d\r\n" % i) for i in range(10)
    )


def test_tokens(shared_broker: BrokerProcess, tmp_path: Path, topic: str) -> None:
    tokens = tmp_path / "tokens"
    read, write = "r" * 32, "w" * 32
    tokens.write_text(f"read {read}\nwrite {write}\n")
    options = ("--http-token-file", str(tokens))
    with GatewayProcess(tmp_path, shared_broker.bootstrap, *options) as gateway:

        def status(method: str, path: str, token: str | None, **more: object) -> int:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return gateway.request(method, path, headers=headers, **more).status_code

        body = {"json": {"topic_name": topic}}
        assert [status("POST", "/topics", token, **body) for token in (None, "x" * 32, read)] == [
            401,
            401,
            403,
        ]
        register = {"json": {"topic": topic}}
        assert status("POST", "/consumer/register", read, **register) == 403, "it would create the topic"
        assert status("GET", f"/v1/topics/{topic}", read) == 404
        assert status("POST", "/topics", write, **body) == 201
        assert status("POST", "/consumer/register", read, **register) == 200
        assert status("GET", "/topics", read) == 200
        assert status("GET", "/healthz", None) == 200


def test_other_machines_are_served_only_when_that_is_meant() -> None:
    unmeant = penstock("gateway", "--host", "0.0.0.0", "--http-port", "0")
    assert "--insecure" in unmeant.usage_complaint
    refused = penstock("gateway", "--host", "0.0.0.0", "--http-port", "0", "--insecure")
    assert "--http-token-file" in refused.complaint
    assert "--no-auth" in refused.complaint


def test_a_token_file_that_can_not_be_used(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("root secret\n")
    assert "line 1" in penstock("gateway", "--http-port", "0", "--http-token-file", str(tokens)).complaint


def test_a_port_that_is_taken(gateway: GatewayProcess) -> None:
    complaint = penstock("gateway", "--http-port", str(gateway.port)).complaint
    assert f"127.0.0.1:{gateway.port}" in complaint


@pytest.mark.parametrize("limit", ["nothing=1", "body_bytes_max=x", "body_bytes_max=-1", "body_bytes_max"])
def test_limits_that_are_none(limit: str) -> None:
    refused = penstock("gateway", "--http-port", "0", "--limit", limit)
    assert refused.code == 2


def test_a_clean_stop(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, shared_broker.bootstrap) as gateway:
        assert gateway.get("/topics").status_code == 200
        assert gateway.terminate() == 0
        assert gateway.log.splitlines() == [f"ready http={gateway.url}"]
