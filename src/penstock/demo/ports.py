"""Ports for the demo: the usual ones, or free ones if those are taken."""

from __future__ import annotations

import random
import socket
from typing import Final

from penstock.demo.errors import DemoError
from penstock.demo.plan import BROKERS, Addresses
from penstock.supervisor.start import FIRST_PORT, LAST_PORT, TRIES_MAX

HOST: Final = "127.0.0.1"
KAFKA_PORT: Final = 9092
HTTP_PORT: Final = 8080


def choose(port: int | None, http_port: int | None) -> tuple[Addresses, list[str]]:
    """Where the brokers and the gateway listen, and what is to be said about it.

    None: the usual port if it is free; 0: any. DemoError: a port that the user wants is taken.
    """
    said: list[str] = []
    kafka = choose_first(port, KAFKA_PORT, BROKERS, "--port", said, taken=set())
    own = set(range(kafka, kafka + BROKERS))
    http = choose_first(http_port, HTTP_PORT, 1, "--http-port", said, taken=own)
    return Addresses(port=kafka, http_port=http), said


def choose_first(
    wanted: int | None, usual: int, count: int, option: str, said: list[str], taken: set[int]
) -> int:
    first = usual if wanted is None else wanted
    busy = (
        [each for each in range(first, first + count) if each in taken or not is_free(each)] if first else []
    )
    if first and not busy:
        return first
    if wanted:
        raise DemoError(f"{option} {wanted}: port {busy[0]} is taken")
    found = free_row(count, taken)
    if busy:
        said.append(
            f"port {busy[0]} is taken: using {found}{f' to {found + count - 1}' if count > 1 else ''}"
        )
    return found


def free_row(count: int, taken: set[int]) -> int:
    """The first of several free ports in a row."""
    for first in random.sample(range(FIRST_PORT, LAST_PORT), TRIES_MAX):
        row = range(first, first + count)
        if not taken.intersection(row) and all(map(is_free, row)):
            return first
    raise DemoError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):
            return False
        return True
