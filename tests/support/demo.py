"""A demo as a process: what it prints, and what it leaves behind.

Its temporary folder and those of its parts are below `folder`, which is in the environment of all of them: so
the processes of one demo are told from those of all others.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.support.managed_process import ROOT, ManagedProcess, environment_with, penstock
from tests.support.wait import wait_until

PENSTOCK = penstock("demo", "--no-browser")
STAND_INS = (sys.executable, "-m", "tests.support.fake_demo")


class DemoProcess(ManagedProcess):
    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        *options: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True)
        self._command = [*command, *options]
        self._errors = folder / "errors"
        super().__init__(
            "the demo",
            folder / "output",
            errors=self._errors,
            environment=environment_with(ROOT, TMPDIR=str(self.temporary), **(environment or {})),
            stop_s_max=90.0,
        )

    def command(self) -> list[str]:
        return self._command

    @property
    def output(self) -> str:
        return self.log

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def wait_for(self, words: str, *, timeout_s: float = 90.0) -> str:
        """The line with these words."""
        return self.wait_for_line(lambda line: words in line, f"{words!r} from the demo", timeout_s=timeout_s)

    def part(self, name: str) -> int:
        """The pid of a stand-in that runs."""

        def pid() -> int:
            found = [int(path.read_text() or 0) for path in self.temporary.glob(f"*/{name}.pid")]
            return found[0] if found and psutil.pid_exists(found[0]) else 0

        return int(wait_until(pid, f"a process of {name}"))

    def interrupt(self) -> None:
        self.signal(signal.SIGINT)

    def end(self) -> None:
        self.kill()

    def processes(self) -> list[psutil.Process]:
        """All of this demo that run."""
        return [process for process in psutil.process_iter() if self._is_own(process)]

    def _is_own(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return process.environ().get("TMPDIR", "").startswith(str(self.temporary))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def wait_until_nothing_is_left(self, *, timeout_s: float = 60.0) -> None:
        wait_until(lambda: not self.processes(), "the end of all processes", timeout_s=timeout_s)
        wait_until(lambda: not list(self.temporary.iterdir()), "the end of the folder", timeout_s=timeout_s)

    def __enter__(self) -> Self:
        self.spawn()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is not None:
            error.add_note(f"end of the errors of the demo:\n{self.errors[-2_000:]}")
            for log in self.temporary.glob("*/logs/*.log"):
                error.add_note(f"end of {log.name}:\n{log.read_text(errors='replace')[-2_000:]}")
        self.wait_until_nothing_is_left()
