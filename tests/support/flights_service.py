"""A real `penstock flights serve` with all its processes.

    with SupervisedCluster(folder, with_gateway=True) as cluster, FlightsService(folder, cluster.bootstrap):
        submit(cluster.http, table, job, out)

The command itself is the child; the driver is its child, Java the driver's, and Python workers are Java's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import processes
from tests.support.broker import SOURCE
from tests.support.java import QUICK_START
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from types import TracebackType

READY_S_MAX, STOP_S_MAX = 180.0, 90.0
READY = "ready flights"
ENDINGS = ("the driver ended", "starting again")


class FlightsService:
    def __init__(self, folder: Path, bootstrap: str, *options: str) -> None:
        self.data = folder / "flights"
        self.starts = 0
        self._command = [sys.executable, "-m", "penstock", "flights", "serve", "--bootstrap", bootstrap]
        self._command += ["--data", str(self.data), "--master", "local[2]", *options]
        self._log = folder / "flights.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def start(self) -> FlightsService:
        self.spawn()
        self.wait_ready()
        return self

    def spawn(self) -> None:
        assert not self.running, "it runs already"
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": str(SOURCE), "SPARK_SUBMIT_OPTS": QUICK_START},
            )
        self.starts += 1

    def wait_ready(self) -> None:
        wait_until(lambda: self.is_ready, "the Flights service is ready", timeout_s=READY_S_MAX)

    @property
    def is_ready(self) -> bool:
        """Its newest driver has begun to work, and has not failed since."""
        log = self.log
        assert self.running, f"penstock flights serve ended by itself:\n{log}"
        return log.rfind(READY) > max(map(log.rfind, ENDINGS))

    @property
    def log(self) -> str:
        """What it said since it was last started."""
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """As a user does, with SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_S_MAX * PATIENCE)
        assert code == 0, f"penstock flights serve ended with {code}:\n{self.log}"

    # Its processes

    @property
    def driver_pid(self) -> int | None:
        return next(iter(processes.children()[self.process.pid]), None) if self.running else None

    @property
    def java_pid(self) -> int | None:
        found = processes.descendants(self.process.pid) if self.running else []
        return next((pid for pid in found if processes.name_of(pid) == "java"), None)

    @property
    def worker_pids(self) -> list[int]:
        """Processes of Python that Spark has started: those that read, those that compute, their parent."""
        java = self.java_pid
        found = processes.descendants(java) if java is not None else []
        return [pid for pid in found if processes.name_of(pid).startswith("python")]

    def __enter__(self) -> FlightsService:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"end of the output of the Flights service:\n{self.log[-4_000:]}")
        if self.running:
            left = processes.descendants(self.process.pid)
            try:
                self.stop() if error is None else self.process.kill()
            finally:
                for pid in left:
                    processes.kill(pid)
                self.process.wait()

    # Spark's checkpoint

    def newest(self, kind: str) -> int:
        """The number of the newest file of `offsets`, which are of batches that began, or of `commits`."""
        return newest(self.data, kind)

    def remove_newest_commit(self) -> int:
        """Then Spark believes that a batch which is complete was never done."""
        newest = self.newest("commits")
        assert newest >= 0, "nothing was ever done"
        commit = self.data / "checkpoint" / "commits" / str(newest)
        commit.unlink()
        commit.with_name(f".{newest}.crc").unlink(missing_ok=True)
        return newest


def newest(data: Path, kind: str) -> int:
    """The number of the newest file of `offsets` or `commits` in a checkpoint; -1 if there is none."""
    names = (path.name for path in (data / "checkpoint" / kind).glob("*"))
    return max((int(name) for name in names if name.isdigit()), default=-1)
