"""Addresses to listen on: written and bound in the same way everywhere."""

from __future__ import annotations

import socket
from typing import Final

BACKLOG: Final = 1024
"""Connections that may wait to be taken."""


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not block, or an OSError that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        message = f"cannot listen on {format_address(host, port)}: {error.strerror or error}"
        raise OSError(error.errno, message) from error
    listening.setblocking(False)
    return listening
