"""A real `penstock up` as a child process, for every test that wants a broker and not a part of one.

    with BrokerProcess(tmp_path) as broker:
        Producer({"bootstrap.servers": broker.bootstrap})

The ports are picked once and kept over `restart()`, so clients find the broker again. Everything the child
prints goes to `broker.log`; a test that fails shows its end.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support.managed_process import READY_SECONDS_MAX, ManagedProcess, environment_with, penstock
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class BrokerProcess(ManagedProcess):
    def __init__(
        self,
        folder: Path,
        *options: str,
        port: int | None = None,
        http_port: int | None = None,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        with_gateway: bool = False,
        name: str = "penstock up",
        ready_s_max: float = READY_SECONDS_MAX,
    ) -> None:
        """`folder` holds the data folder and the output; `options` go to `penstock up` as they are."""
        super().__init__(
            name,
            folder / "broker.log",
            environment=environment_with() | dict(environment or {}),
            ready_s_max=ready_s_max,
        )
        self._with_gateway = with_gateway
        self.data = folder / "data"
        self.options: Sequence[str] = options
        self.port = port or free_port()
        self.http_port = http_port or free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.http = f"http://127.0.0.1:{self.http_port}"
        self._python = python

    def command(self) -> list[str]:
        ports = ["--port", str(self.port), "--http-port", str(self.http_port)]
        gateway = [] if self._with_gateway else ["--no-gateway"]
        up = penstock("up", "--data", str(self.data), python=self._python)
        return [*up, *ports, *gateway, *self.options]
