"""Three brokers of one kind on this machine, each of which can be killed and started again.

A peer is one process as long as it lives; the nodes of a cluster come and go. Both sides keep a partition in
`data/<topic>-<index>/*.log` and replicate its bytes as they are, so equal files are the proof of replication.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.process import UnavailableError, cpu_seconds, spawn, stop, wait_until

BROKERS: Final = (1, 2, 3)
READY_SECONDS_MAX: Final = 180
IN_SYNC_SECONDS_MAX: Final = 90
POLL_SECONDS: Final = 0.05


@dataclass(slots=True, kw_only=True)
class Node:
    id: int
    port: int
    directory: Path
    command: Sequence[object]
    is_ready: Callable[[Node], bool]
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        """What it printed since its last start."""
        return self.directory / "log"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    def start(self) -> None:
        """Does not wait until it is ready."""
        self.process = spawn(self.command, self.log)

    def wait_ready(self) -> None:
        assert self.process is not None, "not started"
        wait_until(lambda: self.is_ready(self), f"node {self.id}", self.process, READY_SECONDS_MAX)

    def kill(self) -> None:
        """With -9, also one that somebody else has killed already."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            stop(self.process)
            self.process = None

    def log_bytes(self, topic: str, index: int) -> int:
        """The size of a partition's files here."""
        return sum(segment.stat().st_size for segment in (self.data / f"{topic}-{index}").glob("*.log"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    name: str
    version: str
    directory: Path
    nodes: dict[int, Node]
    ask_controller: Callable[[Node], int | None]
    """The active controller, as this node knows it; None if it does not answer or there is none."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    def start(self) -> None:
        try:
            for node in self.nodes.values():
                node.start()
            for node in self.nodes.values():
                node.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Without ceremony: nobody needs the data, and the last of three has no quorum to take leave from."""
        for node in self.nodes.values():
            node.kill()

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(node.pid) for node in self.nodes.values())

    def active_controller(self) -> int:
        controllers: list[int] = []

        def is_known() -> bool:
            answers = {self.ask_controller(node) for node in self.nodes.values()}
            controllers[:] = [answer for answer in answers if answer is not None]
            return len(controllers) == len(answers) == 1

        _wait(is_known, f"{self.name}: nodes that agree on a controller")
        return controllers[0]

    def in_sync(self, topic: str, admin: AdminClient | None = None) -> list[set[int]]:
        """The in-sync replicas of each partition; of one that has no leader, none."""
        admin = admin or self._admin()
        described = admin.list_topics(topic, timeout=IN_SYNC_SECONDS_MAX).topics[topic]
        partitions = [described.partitions[index] for index in sorted(described.partitions)]
        return [set(each.isrs) if each.leader >= 0 else set() for each in partitions]

    def wait_in_sync(self, topic: str, replicas: Sequence[set[int]]) -> None:
        admin = self._admin()
        _wait(lambda: self.in_sync(topic, admin) == replicas, f"{self.name}: {topic} in sync on {replicas}")

    def end_offset(self, topic: str) -> int:
        """Of partition 0. A consumer would ask for its group, and thereby create the topic of offsets."""
        admin, partition = self._admin(), TopicPartition(topic, 0)
        asked = admin.list_offsets({partition: OffsetSpec.latest()})
        return int(asked[partition].result(IN_SYNC_SECONDS_MAX).offset)

    def log_bytes(self, topic: str, partitions: int) -> list[set[int]]:
        """The sizes of each partition's files on the nodes: one size where all have the same."""
        return [{node.log_bytes(topic, index) for node in self.nodes.values()} for index in range(partitions)]

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


def _wait(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + IN_SYNC_SECONDS_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise UnavailableError(f"{what}: not after {IN_SYNC_SECONDS_MAX} s")
        time.sleep(POLL_SECONDS)
