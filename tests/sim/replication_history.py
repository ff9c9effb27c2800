"""A history of the simulated cluster: some time of faults, then as much of peace as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage import Flush, LogConfig
from tests.sim.clients import Consumer, Producer, Writer
from tests.sim.faults import Plan
from tests.sim.replication import Cluster, Settings
from tests.sim.replication_faults import KINDS, ReplicationFaults
from tests.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.sim.faults import Fault

FAULTS_FROM_MS = 200
FAULTS_MS = 1500
PEACE_MS = 3000


class ReplicationHistory:
    def __init__(
        self, seed: int, faults: Sequence[Fault] | None = None, *, is_detailed: bool = False
    ) -> None:
        """With all the faults of its seed, or with some of them."""
        self.world = World(seed, is_detailed)
        random = self.world.stream("history")
        self.cluster = Cluster(self.world, settings(random))
        self.producers = self.make_clients(random)
        self.writer = Writer(self.cluster, 21, 0, random.choice([10, 40]))
        planned = plan(random)
        self.faults = planned if faults is None else list(faults)

    def make_clients(self, random: Random) -> list[Producer]:
        world, cluster = self.world, self.cluster
        producers = []
        idle_ms_max = random.choice([30, 30, 400])
        for client_id in range(random.randint(1, 3)):
            index = random.randrange(cluster.settings.partitions)
            producer = Producer(cluster, client_id + 1, index, random.choice([1, 2, 5]), idle_ms_max)
            producers.append(producer)
            world.after(random.randint(0, 200), producer.send)
            world.after(random.randint(0, 200), Consumer(cluster, client_id + 11, index).poll)
        return producers

    def run(self) -> None:
        world, cluster = self.world, self.cluster
        ways = ReplicationFaults(cluster, self.writer)
        for fault in self.faults:
            world.after(fault.at_ms, lambda fault=fault: ways.inject(fault))
        random = world.stream("starts")
        for broker_id in cluster.broker_ids:
            world.after(random.randint(0, 50), lambda broker_id=broker_id: cluster.start(broker_id))
        world.run(FAULTS_MS)
        self.make_peace()
        deadline_ms = world.now_ms + PEACE_MS
        while not self.is_well():
            assert world.now_ms < deadline_ms, "no progress after the faults"
            world.run(world.now_ms + 20)
        cluster.check_all()

    def make_peace(self) -> None:
        self.world.note("peace")
        self.world.heal()
        self.cluster.make_peace()
        self.writer.is_writing = False
        for producer in self.producers:
            producer.is_writing = False

    def is_well(self) -> bool:
        return not any(producer.pending for producer in self.producers) and self.cluster.is_settled()


def settings(random: Random) -> Settings:
    replication_factor = random.choice([1, 2, 3, 3, 3, 3])
    flush = random.choice([Flush.COMMIT, Flush.COMMIT, Flush.COMMIT, Flush.OS])
    return Settings(
        brokers=max(replication_factor, random.choice([3, 3, 4])),
        partitions=random.choice([1, 1, 2]),
        replication_factor=replication_factor,
        min_insync_replicas=random.randint(1, replication_factor),
        log=LogConfig(
            segment_bytes=random.choice([600, 5000]),
            index_interval_bytes=150,
            retention_bytes=1200,
            flush=flush,
        ),
        flush_ms_max=random.choice([0, 5, 30]),
        restart_ms_max=random.choice([20, 100, 300]),
    )


def plan(random: Random) -> list[Fault]:
    """A few kinds of faults: with all of them at once, one hides what another would show."""
    found = Plan(random)
    found.maybe_add(random.randint(0, FAULTS_FROM_MS), "writes that may be lost", 0.5)
    found.maybe_add(FAULTS_FROM_MS, "loss", 0.5)
    found.maybe_add(FAULTS_FROM_MS, "duplication", 0.5)
    found.maybe_add(FAULTS_FROM_MS, "delay", 0.6)
    found.maybe_add(FAULTS_FROM_MS, "stragglers", 0.6)
    found.maybe_add(FAULTS_FROM_MS, "crashes within calls to the disk", 0.3)
    kinds = random.sample(KINDS, random.randint(2, 6))
    start_ms = FAULTS_FROM_MS + random.randint(0, 300)
    found.scatter(kinds, start_ms, FAULTS_MS, (1, random.choice([40, 100, 200])))
    return found.faults
