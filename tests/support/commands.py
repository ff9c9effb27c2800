"""Running `penstock` commands as a user does: a process, its exit code and what it printed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support import managed_process
from tests.support.managed_process import environment_with

if TYPE_CHECKING:
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
        assert self.code == 1, f"exit code {self.code}: {self.out}{self.err}"
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
    result = subprocess.run(
        managed_process.penstock(*arguments),
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env=environment(broker),
        cwd=cwd,
        timeout=timeout_s,
    )
    return Finished(result.returncode, result.stdout.decode(), result.stderr.decode())
