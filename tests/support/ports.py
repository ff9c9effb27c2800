"""Ports for children of a test: each is given once, so that nodes of a cluster never get the same."""

from __future__ import annotations

import os
import random
import re
import socket

# Below the range from which the system takes the local ports of outgoing connections: a port from there
# could be taken by any client between the death of a broker and its restart on the same port.
FIRST_PORT, LAST_PORT = 20_000, 32_000
WORKERS = 4
"""Test processes that run side by side, each with ports of its own."""


class Ports:
    def __init__(self) -> None:
        worker = re.search(r"\d+", os.environ.get("PYTEST_XDIST_WORKER", str(os.getpid())))
        assert worker is not None
        size = (LAST_PORT - FIRST_PORT) // WORKERS
        self._first = FIRST_PORT + int(worker[0]) % WORKERS * size
        self._end = self._first + size
        # Ports of the last run may still be closing.
        self._next = random.SystemRandom().randrange(self._first, self._end)

    def take(self, count: int) -> int:
        """The first of `count` ports in a row that nothing listens on."""
        for _ in range(2 * (self._end - self._first)):
            if self._next + count > self._end:
                self._next = self._first
            first, self._next = self._next, self._next + count
            if all(map(is_free, range(first, first + count))):
                return first
        raise RuntimeError(f"no {count} free ports between {self._first} and {self._end}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


PORTS = Ports()


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on."""
    return PORTS.take(1)


def free_ports(count: int) -> int:
    """The first of several in a row."""
    return PORTS.take(count)
