"""Signs of life to a service manager."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from penstock.broker.service_manager import ServiceManager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PID = 7
SECONDS_MAX = 30.0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind(str(tmp_path / "notify"))
        receiving.settimeout(SECONDS_MAX)
        yield receiving


def served(environment: dict[str, str], heard: socket.socket, signs: int) -> list[bytes]:
    """What is heard of a node that serves until so many signs came, and then stops."""

    async def run() -> list[bytes]:
        with ServiceManager(environment, PID).told():
            return [await asyncio.to_thread(heard.recv, 100) for _ in range(signs)]

    told = asyncio.run(run())
    while told[-1] != b"STOPPING=1":
        told.append(heard.recv(100))
    return [*told[:signs], told[-1]]


def test_a_node_says_that_it_serves_and_goes_on_saying_so(manager: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000", "WATCHDOG_PID": "7"}
    assert served(environment, manager, 3) == [
        b"READY=1",
        b"WATCHDOG=1",
        b"WATCHDOG=1",
        b"STOPPING=1",
    ]


@pytest.mark.parametrize(
    "environment", [{}, {"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "8"}, {"WATCHDOG_USEC": "soon"}]
)
def test_a_watchdog_that_is_not_there_or_not_for_it(
    manager: socket.socket, environment: dict[str, str]
) -> None:
    assert ServiceManager(environment, PID).watchdog_s == 0
    assert served({**environment, "NOTIFY_SOCKET": manager.getsockname()}, manager, 1) == [
        b"READY=1",
        b"STOPPING=1",
    ]


def test_a_name_outside_the_file_system() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.bind("")  # the system picks one
        receiving.settimeout(SECONDS_MAX)
        name = receiving.getsockname().decode().replace("\0", "@", 1)
        assert served({"NOTIFY_SOCKET": name}, receiving, 1) == [b"READY=1", b"STOPPING=1"]


def test_nobody_to_tell(tmp_path: Path) -> None:
    for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "1000"}):

        async def run(environment: dict[str, str] = environment) -> str:
            with ServiceManager(environment, PID).told():
                return "it serves"

        assert asyncio.run(run()) == "it serves"
