"""Signs of life to a service manager, as systemd's sd_notify(3) describes them.

A node that runs under one says when it serves, and then that it still does, from its event loop: a node that
hangs falls silent. The manager ends it (WatchdogSec), which breaks the connections that its clients would
wait on. Without NOTIFY_SOCKET in the environment nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Final

log = logging.getLogger(__name__)

READY: Final = b"READY=1"
ALIVE: Final = b"WATCHDOG=1"
STOPPING: Final = b"STOPPING=1"
"""From then on no signs of life are expected, and the stop has a time of its own."""
SIGNS: Final = 3
"""Within the time after which the manager takes the node for dead."""


class ServiceManager:
    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        """`pid`: of this process. The watchdog may be meant for another one, which started it."""
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.watchdog_s = 0.0
        """After so long without a sign the node is ended; 0: there is no watchdog."""
        with contextlib.suppress(ValueError):
            if int(environment.get("WATCHDOG_PID", pid)) == pid:
                self.watchdog_s = int(environment.get("WATCHDOG_USEC", 0)) / 1_000_000

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """While the block runs, the node serves."""
        if not self._address:
            yield
            return
        self._send(READY)
        signs = asyncio.get_running_loop().create_task(self._give_signs())
        try:
            yield
        finally:
            signs.cancel()
            self._send(STOPPING)

    async def _give_signs(self) -> None:
        while self.watchdog_s > 0:
            self._send(ALIVE)
            await asyncio.sleep(self.watchdog_s / SIGNS)

    def _send(self, sign: bytes) -> None:
        # A name that begins with @ is one outside the file system, which begins with a zero byte.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(sign, address)
        except OSError as error:  # the node serves all the same
            log.warning("the service manager cannot be told %s: %s", sign.decode(), error)


def of_node(*, has_supervisor: bool) -> ServiceManager:
    """A supervisor of ours looks after its nodes itself."""
    return ServiceManager({} if has_supervisor else os.environ, os.getpid())
