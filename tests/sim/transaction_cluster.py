"""A cluster of simulated brokers with transactions, and what can be asked of all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.broker.group_coordinator import OFFSETS_TOPIC
from penstock.broker.transaction_coordinator import TRANSACTIONS_TOPIC
from penstock.groups.placement import partition_for
from penstock.metadata.configs import effective_topic_config
from penstock.storage import LogConfig, MemoryStorage
from penstock.transactions.limits import TransactionLimits
from penstock.types import TopicPartition
from tests.sim.transaction_broker import Broker
from tests.sim.transaction_controller import ActiveController
from tests.sim.transaction_truth import Truth

if TYPE_CHECKING:
    from random import Random

    from penstock.transactions.transaction import Transaction
    from tests.sim.world import World

TOPIC = "t"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Limits are short: much happens in a second, and often when it should not."""

    brokers: int = 3
    partitions: int = 2
    coordinators: int = 1
    """Partitions of each internal topic."""
    min_insync_replicas: int = 2
    log: LogConfig = field(default_factory=lambda: LogConfig(segment_bytes=1500))
    limits: TransactionLimits = field(default_factory=TransactionLimits)
    transaction_timeout_ms: int = 400
    lag_ms_max: int = 150
    heartbeat_ms: int = 40
    fetch_wait_ms_max: int = 60
    request_ms_max: int = 80
    client_request_ms_max: int = 60
    retry_ms: int = 10
    flush_ms: tuple[int, ...] = (0, 1, 3)
    producer_id_ms: tuple[int, ...] = (0, 0, 0, 20)
    restart_ms_max: int = 100


@dataclass
class Machine:
    broker_id: int
    storage: MemoryStorage
    clock_error_ms: int = 0


class Cluster:
    def __init__(self, world: World, settings: Settings) -> None:
        self.world, self.settings = world, settings
        self.random = world.stream("machines")
        self.truth = Truth()
        self.starts = self.producer_ids = 0
        self.lateness = 0.0
        """How likely a request or an answer comes late."""
        self._streams: dict[tuple[int, int], Random] = {}
        self.broker_ids = range(1, settings.brokers + 1)
        self.machines = {each: Machine(each, MemoryStorage(UUID(int=each))) for each in self.broker_ids}
        self.running: dict[int, Broker] = {}
        topics = {
            TOPIC: settings.partitions,
            TRANSACTIONS_TOPIC: settings.coordinators,
            OFFSETS_TOPIC: settings.coordinators,
        }
        self.partitions = [TopicPartition(TOPIC, index) for index in range(settings.partitions)]
        self.everywhere = [
            TopicPartition(name, index) for name, count in topics.items() for index in range(count)
        ]
        overrides = {"min.insync.replicas": str(settings.min_insync_replicas)}
        self.topic_configs = {
            name: effective_topic_config(overrides, {}, replication_factor=3, internal=name != TOPIC)
            for name in topics
        }
        self.controller = ActiveController(self, topics)
        for broker_id in self.broker_ids:
            self.begin(broker_id, self.controller.image.brokers[broker_id].epoch)

    def new_stream(self, broker_id: int) -> Random:
        self.starts += 1
        return self.world.stream(f"broker {broker_id}, start {self.starts}")

    def stream_of(self, source: int, target: int) -> Random:
        stream = self._streams.get((source, target))
        if stream is None:
            stream = self._streams[source, target] = self.world.stream(f"late {source} to {target}")
        return stream

    def next_producer_id(self) -> int:
        self.producer_ids += 1
        return self.producer_ids

    # Who leads, as a broker sees it that may know the latest or not

    def leader(self, where: TopicPartition, random: Random) -> int:
        if not self.running:
            return -1
        broker = self.running[random.choice(sorted(self.running))]
        return broker.image.topics[where.topic].partitions[where.partition].leader

    def coordinator_of(self, transactional_id: str) -> TopicPartition:
        return TopicPartition(TRANSACTIONS_TOPIC, partition_for(transactional_id, self.settings.coordinators))

    def group_coordinator_of(self, group_id: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, partition_for(group_id, self.settings.coordinators))

    # Processes

    def start(self, broker_id: int) -> None:
        if broker_id not in self.running:
            self.world.note(f"{broker_id} starts")
            self.begin(broker_id, self.controller.register(broker_id))

    def begin(self, broker_id: int, broker_epoch: int) -> None:
        broker = Broker(self, self.machines[broker_id], self.controller.image, broker_epoch)
        broker.offset = self.controller.offset
        self.running[broker_id] = broker
        broker.loop.create_task(broker.start())

    def crash(self, broker_id: int, random: Random) -> None:
        self.world.note(f"{broker_id} dies")
        broker = self.running.pop(broker_id)
        broker.loop.die()
        broker.machine.storage._open.clear()  # nothing was closed
        self.world.after(random.randint(0, 150), lambda: self.fence_if_down(broker_id))
        self.world.after(random.randint(1, self.settings.restart_ms_max), lambda: self.start(broker_id))

    def fence_if_down(self, broker_id: int) -> None:
        if broker_id not in self.running:
            self.controller.fence(broker_id, "its connection is refused")

    def pause(self, broker_id: int, duration_ms: int) -> None:
        broker = self.running[broker_id]
        if not broker.loop.is_paused:
            self.world.note(f"{broker_id} is stopped for {duration_ms} ms")
            broker.loop.pause()
            self.world.after(duration_ms, broker.loop.resume)

    def make_peace(self) -> None:
        for broker_id in self.broker_ids:
            self.machines[broker_id].clock_error_ms = 0
            if broker_id in self.running:
                self.running[broker_id].loop.resume()
            else:
                self.start(broker_id)

    # What there is in the end

    def unfinished(self) -> str | None:
        """What is still open, or not yet everywhere."""
        for where in self.everywhere:
            leader = self.running.get(self.controller.partition(where).leader)
            if leader is None:
                return f"{where} has no leader"
            end_offset = leader.partitions.all[where].log.log_end_offset
            for broker in self.running.values():
                partition = broker.partitions.all[where]
                if partition.log.log_end_offset != end_offset or partition.high_watermark != end_offset:
                    return f"{where} is not everywhere the same"
                if partition.last_stable_offset != end_offset:
                    return f"{where} has a transaction that does not end, on {broker.broker_id}"
        for transaction in self.transactions():
            if not transaction.state.is_over:
                return f"{transaction.transactional_id} is {transaction.state.value}"
        for broker in self.running.values():
            for shard in broker.groups.open_shards():
                for group in shard.core.groups.values():
                    if group.offsets.pending:
                        return f"{group.group_id} has positions of an open transaction"
        return None

    def transactions(self) -> list[Transaction]:
        return [
            transaction
            for broker in self.running.values()
            for shard in broker.transactions.open_shards()
            for transaction in shard.core.transactions.values()
        ]
