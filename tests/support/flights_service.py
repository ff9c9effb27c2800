"""A real `penstock flights serve` with all its processes.

    with SupervisedCluster(folder, with_gateway=True) as cluster, FlightsService(folder, cluster.bootstrap):
        submit(cluster.http, table, job, out)

The command itself is the child; the driver is its child, Java the driver's, and Python workers are Java's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import processes
from tests.support.java import QUICK_START
from tests.support.managed_process import ManagedProcess, environment_with, penstock

if TYPE_CHECKING:
    from types import TracebackType

READY_S_MAX, STOP_S_MAX = 180.0, 90.0
READY = "ready flights"
ENDINGS = ("the driver ended", "starting again")


class FlightsService(ManagedProcess):
    def __init__(self, folder: Path, bootstrap: str, *options: str) -> None:
        super().__init__(
            "penstock flights serve",
            folder / "flights.log",
            environment=environment_with(SPARK_SUBMIT_OPTS=QUICK_START),
            stop_s_max=STOP_S_MAX,
        )
        self.data = folder / "flights"
        self.starts = 0
        where = ["--bootstrap", bootstrap, "--data", str(self.data)]
        self._arguments = [*where, "--master", "local[2]", *options]

    def command(self) -> list[str]:
        return penstock("flights", "serve", *self._arguments)

    def spawn(self) -> None:
        super().spawn()
        self.starts += 1

    def wait_ready(self, *, timeout_s: float | None = None) -> str:
        """Wait for a driver that works, which need not be the first one."""
        timeout_s = READY_S_MAX if timeout_s is None else timeout_s
        self.wait_until(lambda: self.is_ready, "the Flights service is ready", timeout_s=timeout_s)
        return READY

    @property
    def is_ready(self) -> bool:
        """Its newest driver has begun to work, and has not failed since."""
        log = self.log
        assert self.running, f"penstock flights serve ended by itself:\n{log}"
        return log.rfind(READY) > max(map(log.rfind, ENDINGS))

    def stop(self) -> None:
        """As a user does, with SIGTERM."""
        code = self.terminate()
        assert code == 0, f"penstock flights serve ended with {code}:\n{self.log}"

    def end(self) -> None:
        if self.running:
            self.stop()

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = processes.descendants(self.pid) if self.running else []
        try:
            super().__exit__(kind, error, trace)
        finally:
            for pid in left:
                processes.kill(pid)

    # Spark's checkpoint

    def newest(self, kind: str) -> int:
        """The number of the newest file of `offsets`, which are of batches that began, or of `commits`."""
        return newest(self.data, kind)

    def remove_newest_commit(self) -> int:
        """Then Spark believes that a batch which is complete was never done."""
        return remove_newest_commit(self.data)


def newest(data: Path, kind: str) -> int:
    """The number of the newest file of `offsets` or `commits` in a checkpoint; -1 if there is none."""
    names = (path.name for path in (data / "checkpoint" / kind).glob("*"))
    return max((int(name) for name in names if name.isdigit()), default=-1)


def remove_newest_commit(data: Path) -> int:
    """Of a checkpoint; its number."""
    number = newest(data, "commits")
    assert number >= 0, "nothing was ever done"
    commit = data / "checkpoint" / "commits" / str(number)
    commit.unlink()
    commit.with_name(f".{number}.crc").unlink(missing_ok=True)
    return number
