"""The process that ends what is left of a demo that was killed.

It reads its standard input, a pipe from the demo: `+ PID STARTED` for each process that was started and
`- PID STARTED` for each that has ended. The last line is `done`; without it the demo ended as it never
should, and the guard does what the demo could not. It ends the processes with all of their groups (a Java
that loses its Python while it starts does not end by itself), the cluster, whoever is its supervisor by now,
and removes the folder if it was a temporary one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.demo.ending import LOOK_S, Process, end_cluster
from penstock.demo.plan import Places
from penstock.supervisor.folder import ClusterFolder

DONE: Final = "done"
KEEP: Final = "--keep"
PATIENCE_S: Final = 20.0


class Guard:
    """The demo's side of it."""

    def __init__(self, folder: Path, *, keep: bool) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and this package
            [sys.executable, "-m", "penstock.demo.guard", str(folder), *([KEEP] if keep else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def watch(self, process: Process) -> None:
        self._write(f"+ {process.pid} {process.started}")

    def forget(self, process: Process) -> None:
        """It has ended, and its id may soon be somebody else's."""
        self._write(f"- {process.pid} {process.started}")

    def dismiss(self) -> None:
        self._write(DONE)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # somebody killed the guard; the demo goes on without it
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def main(arguments: list[str]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = Path(arguments[0])
    processes: set[Process] = set()
    for line in sys.stdin:
        if line.strip() == DONE:
            return
        sign, pid, started = line.split()
        process = Process(int(pid), int(started))
        if sign == "+":
            processes.add(process)
        else:
            processes.discard(process)
    end(processes, PATIENCE_S)
    end_cluster(ClusterFolder(Places(folder).cluster), PATIENCE_S)
    if KEEP not in arguments:
        shutil.rmtree(folder, ignore_errors=True)


def end(processes: Iterable[Process], patience_s: float) -> None:
    """Each by SIGTERM, and after its end or its time all of its group by SIGKILL."""
    left = list(processes)
    for process in left:
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)
    deadline = time.monotonic() + patience_s
    while left:
        is_over = time.monotonic() >= deadline
        for process in left:
            if is_over or not process.lives:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        left = [process for process in left if process.lives]
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main(sys.argv[1:])
