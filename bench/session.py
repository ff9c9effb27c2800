"""One run of the benchmark: which peers are up, how many rounds, how long, and where their files are."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from bench.cluster import Cluster
from bench.peers import (
    http_queues,
    kafka,
    kafka_cluster,
    nats,
    penstock,
    penstock_cluster,
    penstock_postgres,
    rabbitmq,
    redis,
    sink,
)
from bench.peers.base import Peer
from bench.process import UnavailableError

T = TypeVar("T")

TOUCHED_MB: Final = 800
_MEGABYTE: Final = bytes(1024 * 1024)

STARTERS: Final[dict[str, Callable[[Path], Peer | Cluster]]] = {
    "penstock-os": lambda directory: penstock.start(directory, flush="os"),
    "penstock-before": lambda directory: penstock.start(
        directory, flush="os", source=penstock.source_before(directory)
    ),
    "penstock-commit": lambda directory: penstock.start(directory, flush="commit"),
    "penstock-postgres": lambda directory: penstock_postgres.start(directory, flush="commit"),
    "http-files": http_queues.start_on_files,
    "http-postgres": http_queues.start_on_postgres,
    "sink": sink.start,
    "kafka": kafka.start,
    "penstock-cluster": lambda directory: penstock_cluster.start(directory, flush="os"),
    "kafka-cluster": kafka_cluster.start,
    "redis-everysec": lambda directory: redis.start(directory, fsync="everysec"),
    "redis-always": lambda directory: redis.start(directory, fsync="always"),
    "nats": nats.start,
    "rabbitmq": rabbitmq.start,
}


class Session:
    def __init__(self, *, rounds: int, seconds: float, quick: bool, budget_seconds: float) -> None:
        self.rounds, self.seconds, self.quick = rounds, seconds, quick
        self._deadline = time.monotonic() + budget_seconds
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        self._peers: dict[str, Peer | Cluster] = {}
        self._names = 0

    def use(self, *names: str) -> list[str]:
        """Have exactly these peers up, and say which of them are: an idle peer would take part of the CPU."""
        for name in [name for name in self._peers if name not in names]:
            self._stop(name)
        for name in names:
            if name not in self._peers and name not in self.missing:
                self._start(name)
        return [name for name in names if name in self._peers]

    def peer(self, name: str) -> Peer:
        peer = self._peers[name]
        assert isinstance(peer, Peer)
        return peer

    def cluster(self, name: str) -> Cluster:
        cluster = self._peers[name]
        assert isinstance(cluster, Cluster)
        return cluster

    def directory(self, name: str) -> Path:
        """A new folder in the run's own."""
        directory = self._directory / self.unique(name)
        directory.mkdir()
        return directory

    def unique(self, name: str) -> str:
        self._names += 1
        return f"{name}-{self._names}"

    def interleaved(self, names: Sequence[str], run: Callable[[Peer], T]) -> dict[str, list[T]]:
        return self.in_turn(names, lambda name: run(self.peer(name)))

    def in_turn(self, names: Sequence[str], run: Callable[[str], T]) -> dict[str, list[T]]:
        """A B C, B C A, …; a first round warms up and does not count. Out of time, one round must do.

        Whoever comes next runs beside what a peer still does in the background, so all take every place.
        """
        results: dict[str, list[T]] = {name: [] for name in names}
        for round_number in range(self.rounds + 1):
            if round_number > 1 and self.out_of_time:
                break
            first = round_number % len(names)
            for name in (*names[first:], *names[:first]):
                self.level_ground()
                outcome = run(name)
                if round_number:
                    results[name].append(outcome)
        return results

    def level_ground(self) -> None:
        """The same start for each run: nobody's dirty pages are left, and there are pages to be had.

        A virtual machine gets memory from its host when it first touches it, at a tenth of the usual speed,
        and gives it back soon after it is freed. Whoever writes first would pay for the one who comes after.
        """
        os.sync()
        touched = self._directory / "touched"
        with touched.open("wb", buffering=0) as file:
            for _ in range(TOUCHED_MB):
                file.write(_MEGABYTE)
        touched.unlink()

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() > self._deadline

    def close(self) -> None:
        for name in list(self._peers):
            self._stop(name)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, name: str) -> None:
        try:
            self._peers[name] = peer = STARTERS[name](self.directory(name))
        except UnavailableError as error:
            self.missing[name] = str(error)
        else:
            self.versions[peer.name.split()[0]] = peer.version

    def _stop(self, name: str) -> None:
        peer = self._peers.pop(name)
        peer.stop()
        shutil.rmtree(peer.directory, ignore_errors=True)
