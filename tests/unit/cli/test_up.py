from __future__ import annotations

import socket

import pytest

from penstock.cli.up import is_wildcard, listen_early
from penstock.listening import bind


@pytest.mark.parametrize(
    ("host", "wildcard"),
    [
        ("0.0.0.0", True),
        ("::", True),
        ("0:0:0:0:0:0:0:0", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("localhost", False),
        ("broker-1.example.org", False),
    ],
)
def test_addresses_that_nobody_can_connect_to(host: str, wildcard: bool) -> None:
    assert is_wildcard(host) is wildcard


def test_a_node_of_a_cluster_takes_connections_before_it_can_answer_them() -> None:
    settings = {"host": "127.0.0.1", "port": 0, "controllers": {1: ("127.0.0.1", 1)}}
    listening = listen_early(settings)
    assert listening is not None
    with listening, socket.create_connection(listening.getsockname(), 5):
        pass


def test_a_node_that_is_alone_takes_none_before_it_serves() -> None:
    assert listen_early({"host": "127.0.0.1", "port": 0}) is None


def test_a_taken_port_is_told_later() -> None:
    """After what is more to the point, such as that the data folder is in use."""
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert listen_early({"host": "127.0.0.1", "port": port, "controllers": {1: ("x", 1)}}) is None
