from __future__ import annotations

import socket

import pytest

from penstock.cli.kafka import client_config, require_reachable, split_address
from penstock.cli.output import CommandFailed
from tests.support.ports import free_port


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("localhost:1234", ("localhost", 1234)),
        (" a.example.org:9 ", ("a.example.org", 9)),
        ("localhost", ("localhost", 9092)),
        ("PLAINTEXT://a:9093", ("a", 9093)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
    ],
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", ":9092", "a:b", "a:0", "a:65536", "a:-1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(CommandFailed, match="is not an address"):
        split_address(address)


def test_keywords_become_kafkas_names() -> None:
    config = client_config("a:1", auto_offset_reset="earliest")
    assert config["bootstrap.servers"] == "a:1"
    assert config["auto.offset.reset"] == "earliest"


def test_one_reachable_address_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        require_reachable(f"127.0.0.1:{free_port()},127.0.0.1:{listening.getsockname()[1]}")


def test_all_unreachable_addresses_are_named_with_the_reason() -> None:
    first, second = free_port(), free_port()
    with pytest.raises(CommandFailed) as caught:
        require_reachable(f"127.0.0.1:{first},127.0.0.1:{second}")
    reasons = "; ".join(f"127.0.0.1:{port}: Connection refused" for port in (first, second))
    assert str(caught.value) == f"no broker reachable at {reasons}"
