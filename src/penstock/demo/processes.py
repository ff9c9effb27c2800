"""A part of the demo as a process.

It has a session of its own, so that Ctrl-C on the terminal reaches the demo alone, which stops its parts in
their order. It writes to a file: a pipe would break when the demo is killed, just when the part is to stop
cleanly.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.demo.ending import Process, process_of

LAUNCH: Final = Path(__file__).with_name("launch.py")
TAIL_LINES: Final = 12
LINE_CHARACTERS_MAX: Final = 500


class Child:
    """To be made in the main thread: Linux ends a process with the thread that started it."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str], niceness: int = 0
    ) -> None:
        """OSError if there can be no process."""
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        """The last lines of what it said."""
        self.code: int | None = None
        """Once it has ended."""
        self._rest = b""
        with log.open("ab") as output:
            self._output = log.open("rb")
            self._output.seek(output.tell())
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and this package
                [sys.executable, "-S", "-E", str(LAUNCH), str(os.getpid()), str(niceness), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.identity: Process | None = process_of(self.pid)
        """None if it has ended already."""

    def lines(self) -> list[str]:
        """What it said since the last call; an unfinished line only when it has ended."""
        content = self._rest + self._output.read()
        *whole, self._rest = content.split(b"\n")
        if self.code is not None and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        lines = [line.decode(errors="replace")[:LINE_CHARACTERS_MAX].rstrip() for line in whole]
        self.tail += lines
        return lines

    def poll(self) -> int | None:
        """Its exit code. With it go those whom it started in its session: a Java without its Spark."""
        if self.code is None and has_ended(self.pid):
            self._signal_group(signal.SIGKILL)  # while its id is not yet free for somebody else
            self.code = self._process.wait()
        return self.code

    def terminate(self) -> None:
        if self.code is None:  # so its pid is still its own; Popen would look, and take the exit code
            os.kill(self.pid, signal.SIGTERM)
            os.kill(self.pid, signal.SIGCONT)  # one that is paused would not hear it

    def kill(self) -> None:
        if self.code is None:
            self._signal_group(signal.SIGKILL)

    def close(self) -> None:
        self._output.close()

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def has_ended(pid: int) -> bool:
    """Of a child that is left as a zombie for now."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
