"""Running `penstock` commands as a user does: a process, its exit code and what it printed.

The processes are forked by `fork_server.py`, which saves each of them its imports.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tests.support import managed_process
from tests.support.fork_server import ForkedProcess, fork, may_fork
from tests.support.managed_process import environment_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.support.broker import BrokerProcess

COMMAND_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What was printed, of a command that did its work."""
        assert self.code == 0, f"exit code {self.code}: {self.err}"
        return self.out.splitlines()

    @property
    def complaint(self) -> str:
        """The one line of a command that failed."""
        return self.line_of(1)

    @property
    def usage_complaint(self) -> str:
        """The one line of a command that cannot be meant like that."""
        return self.line_of(2)

    def line_of(self, code: int) -> str:
        assert self.code == code, f"exit code {self.code}: {self.out}{self.err}"
        assert self.err.count("\n") == 1, f"not one line: {self.err}"
        assert self.err.startswith("penstock: ")
        return self.err.removeprefix("penstock: ").rstrip("\n")


def environment(broker: BrokerProcess | None = None) -> dict[str, str]:
    if broker is None:
        return environment_with()
    return environment_with(PENSTOCK_BOOTSTRAP=broker.bootstrap, PENSTOCK_HTTP=broker.http)


def penstock(
    *arguments: str,
    broker: BrokerProcess | None = None,
    stdin: str | bytes = b"",
    cwd: Path | None = None,
    timeout_s: float = COMMAND_SECONDS_MAX,
) -> Finished:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = start(arguments, environment(broker), cwd, reading, out.fileno(), err.fileno())
        finally:
            os.close(reading)
        feeding = threading.Thread(target=feed, args=(writing, given))
        feeding.start()
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
            feeding.join()
        return Finished(code, read_from_start(out).decode(), read_from_start(err).decode())


def start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path | None,
    stdin: int,
    stdout: int,
    stderr: int,
) -> subprocess.Popen[bytes] | ForkedProcess:
    if may_fork(arguments):
        return fork(arguments, environment, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr)
    return subprocess.Popen(
        managed_process.penstock(*arguments),
        env=dict(environment),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


def feed(pipe: int, data: bytes) -> None:
    """What a command reads from its standard input, unless it ends before."""
    with suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(data)


def read_from_start(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
