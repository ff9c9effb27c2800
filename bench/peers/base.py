"""What every running peer offers."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from bench.process import stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    name: str
    version: str
    port: int
    process: subprocess.Popen[bytes]
    directory: Path
    helpers: tuple[subprocess.Popen[bytes], ...] = field(default=())
    """Further processes that the peer needs; they end after it."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        for process in (self.process, *self.helpers):
            stop(process)
