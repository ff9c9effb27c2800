from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from penstock.demo import ports
from penstock.demo.errors import DemoError
from penstock.demo.plan import BROKERS
from tests.support.ports import free_port, free_ports


@pytest.fixture
def taken() -> Iterator[int]:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        yield port


def test_the_usual_ports_when_they_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "KAFKA_PORT", free_ports(BROKERS))
    monkeypatch.setattr(ports, "HTTP_PORT", free_port())
    addresses, said = ports.choose(None, None)
    assert (addresses.port, addresses.http_port) == (ports.KAFKA_PORT, ports.HTTP_PORT)
    assert said == []


def test_other_ports_when_one_of_them_is_taken(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    monkeypatch.setattr(ports, "KAFKA_PORT", taken - 1)
    monkeypatch.setattr(ports, "HTTP_PORT", taken)
    addresses, said = ports.choose(None, None)
    row = range(addresses.port, addresses.port + BROKERS)
    assert taken not in (*row, addresses.http_port)
    assert addresses.http_port not in row
    assert said == [
        f"port {taken} is taken: using {row[0]} to {row[-1]}",
        f"port {taken} is taken: using {addresses.http_port}",
    ]


def test_a_port_that_the_user_wants_is_used_or_refused(taken: int) -> None:
    free, http = free_ports(BROKERS), free_port()
    addresses, said = ports.choose(free, http)
    assert (addresses.port, addresses.http_port, said) == (free, http, [])
    with pytest.raises(DemoError, match=f"--port {taken}: port {taken} is taken"):
        ports.choose(taken, None)
    with pytest.raises(DemoError, match=f"--http-port {taken}: port {taken} is taken"):
        ports.choose(free, taken)


def test_the_console_and_the_brokers_do_not_get_the_same_port() -> None:
    first = free_ports(BROKERS)
    with pytest.raises(DemoError, match=f"--http-port {first + 1}: port {first + 1} is taken"):
        ports.choose(first, first + 1)


def test_any_port() -> None:
    addresses, said = ports.choose(0, 0)
    assert addresses.port > 0
    assert addresses.http_port > 0
    assert said == []
