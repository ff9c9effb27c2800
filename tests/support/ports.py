"""Ports for children of a test."""

from __future__ import annotations

import random
import socket

# Below the range from which the system takes the local ports of outgoing connections: a port from there
# could be taken by any client between the death of a broker and its restart on the same port.
FIRST_PORT, LAST_PORT = 20_000, 32_000


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on."""
    ports = random.SystemRandom()
    for _ in range(1_000):
        port = ports.randint(FIRST_PORT, LAST_PORT)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port between {FIRST_PORT} and {LAST_PORT}")
