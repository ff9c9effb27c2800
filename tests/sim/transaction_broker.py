"""A broker process of the simulated cluster for transactions.

Partitions, coordinators, markers, verifications and the handlers of requests are the broker's own, with all
that is beneath them: the cores and the log, in memory. They run on the process's simulated loop. What is made
simple here is how processes hear of each other: metadata, replication and requests come through the seeded
network as objects, not as bytes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.broker.context import ConnectionState, RequestContext
from penstock.broker.group_coordinator import GroupCoordinator
from penstock.broker.handlers import load_handlers
from penstock.broker.in_sync_sets import InSyncSets
from penstock.broker.metrics import Metrics
from penstock.broker.partition import Partition, Surroundings
from penstock.broker.refused_batches import RefusedBatches
from penstock.broker.reply import Deferred
from penstock.broker.transaction_coordinator import TransactionCoordinator
from penstock.broker.wakeup import Wakeup
from penstock.groups.limits import GroupLimits
from penstock.metadata.config_layers import ConfigLayers
from penstock.peers.connection import PeerError
from penstock.replication.follower import AppendRecords, FetchAgain, Retry, StartAt, Stop, TruncateTo
from penstock.replication.leader import Member
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.registry import Registry
from tests.sim.connections import REPLICAS, Connections
from tests.sim.process_loop import ProcessLoop
from tests.sim.transaction_controller import CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.metadata.configs import TopicConfig
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.partition_changes import IsrChange
    from penstock.peers.peers import Lane
    from penstock.replication.follower import PartitionFollower
    from penstock.storage import FlushJob
    from tests.sim.transaction_cluster import Cluster, Machine

REGISTRY = Registry(load_handlers())
READ_BYTES = 2000


class Writers:
    """Instead of threads: a flush is done at once, some time later."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def submit(self, job: FlushJob, done: Callable[[FlushJob], None]) -> None:
        def run() -> None:
            job.run()
            done(job)

        self._broker.loop.call_later(self._broker.random.choice(self._broker.settings.flush_ms) / 1000, run)


class Partitions:
    def __init__(self) -> None:
        self.all: dict[TopicPartition, Partition] = {}
        self.refused = RefusedBatches()

    def get(self, topic: str, index: int) -> Partition | None:
        return self.all.get(TopicPartition(topic, index))

    def require(self, topic: str, index: int) -> Partition:
        partition = self.get(topic, index)
        if partition is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self.all.values()))


class Broker:
    log = logging.getLogger("penstock.broker")

    def __init__(self, cluster: Cluster, machine: Machine, image: MetadataImage, broker_epoch: int) -> None:
        self.cluster, self.machine, self.world = cluster, machine, cluster.world
        self.settings, self.broker_id, self.broker_epoch = cluster.settings, machine.broker_id, broker_epoch
        self.random = cluster.new_stream(self.broker_id)
        self.loop = ProcessLoop(self.world)
        self.connections = Connections(cluster, self.broker_id, self.loop)
        self.image, self.offset = image, 0
        self.partitions = Partitions()
        self._follow: dict[TopicPartition, Wakeup] = {}
        self._told: dict[tuple[TopicPartition, int], int] = {}
        self._subscribers: list[Callable[[Any], None]] = []
        self._make_surroundings()
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.in_sync_sets = InSyncSets(
            self.partitions,
            self.controller,
            self.channel,
            node_id=self.broker_id,
            broker_epoch=lambda: self.broker_epoch,
            monotonic_ms=self.monotonic_ms,
        )

    def _make_surroundings(self) -> None:
        """What the parts of a broker know of it."""
        settings = self.settings
        self.config = SimpleNamespace(
            node_id=self.broker_id,
            rack=None,
            groups=GroupLimits(),
            transactions=settings.limits,
            transactions_topic_partitions=1,
            offsets_topic_partitions=1,
            limits=SimpleNamespace(fetch_response_bytes_max=1 << 20),
        )
        self.metrics = Metrics()
        self.memory = SimpleNamespace(free_bytes=1 << 20)
        self.lifecycle = SimpleNamespace(has_lease=True)
        self.producer_ids = SimpleNamespace(next=self._next_producer_id)
        self.peers = SimpleNamespace(ask=self._ask_peer)
        self.channel = SimpleNamespace(alter_partitions=self._alter_partitions)
        self.controller = _Controller(self)
        self.surroundings = Surroundings(
            self.broker_id,
            Writers(self),
            self.metrics,
            self.now_ms,
            self.monotonic_ms,
            settings.lag_ms_max,
            self._log_failed,
        )

    def now_ms(self) -> int:
        return self.world.now_ms + self.machine.clock_error_ms

    def monotonic_ms(self) -> int:
        return self.world.now_ms

    def _log_failed(self) -> None:
        raise AssertionError("no disk fails in this world")

    # Life

    async def start(self) -> None:
        live = frozenset(broker.id for broker in self.image.live_brokers())
        for topic in self.image.topics.values():
            config = self.cluster.topic_configs[topic.name]
            for index, image in topic.partitions.items():
                where = TopicPartition(topic.name, index)
                log = self.machine.storage.open_log(
                    str(where), topic.topic_id, self.settings.log, self.now_ms()
                )
                self.partitions.all[where] = Partition(
                    where, topic.topic_id, log, image, config, live, self.surroundings
                )
                self._follow[where] = Wakeup()
                self.loop.create_task(self._follow_leader(where, self.partitions.all[where]))
        await self.groups.start()
        await self.transactions.start()
        self.in_sync_sets.start()
        self.loop.create_task(self._beat())

    async def _beat(self) -> None:
        controller = self.cluster.controller
        while True:
            said = self.broker_id, self.broker_epoch, self.offset
            self.world.send(self.broker_id, CONTROLLER, lambda said=said: controller.heartbeat(*said))
            await asyncio.sleep(self.settings.heartbeat_ms / 1000)

    def metadata(self, image: MetadataImage, offset: int) -> None:
        me = image.brokers.get(self.broker_id)
        if offset <= self.offset or me is None or me.epoch != self.broker_epoch:
            return
        before, self.image, self.offset = self.image, image, offset
        live = frozenset(broker.id for broker in image.live_brokers())
        for where, partition in self.partitions.all.items():
            partition.apply(image.topics[where.topic].partitions[where.partition], live)
            self._follow[where].wake()
        changed = {name for name, topic in image.topics.items() if topic != before.topics.get(name)}
        for subscriber in self._subscribers:
            subscriber(SimpleNamespace(created={}, deleted={}, changed=changed))

    # Requests

    async def handle(self, key: int, version: int, body: Any) -> Any:
        """What the handler of the API makes of the request, both as objects with Kafka's names."""
        handler = REGISTRY.find(key, version)
        assert handler is not None
        request = as_object(body)
        context = RequestContext(self, version, "", ConnectionState(""), request)
        answer = handler.function(request, context)
        if isinstance(answer, Deferred):
            deferred, waiting = answer, self.loop.create_future()
            deferred.then(waiting.set_result)
            return await waiting
        return as_object(await answer if inspect.isawaitable(answer) else answer)

    async def _ask_peer(
        self, node_id: int, lane: Lane, key: int, version: int, body: Any, *, timeout_s: float
    ) -> Any:
        return await self.connections.ask(
            node_id, lane.value, lambda other: other.handle(key, version, body), int(timeout_s * 1000)
        )

    async def _next_producer_id(self) -> int:
        await asyncio.sleep(self.random.choice(self.settings.producer_id_ms) / 1000)
        return self.cluster.next_producer_id()

    async def _alter_partitions(self, node_id: int, broker_epoch: int, changes: list[IsrChange]) -> Any:
        answer = self.loop.create_future()

        def deliver() -> None:
            try:
                outcomes = self.cluster.controller.alter_partitions(node_id, broker_epoch, changes)
            except ApiError:
                return
            self.world.send(CONTROLLER, self.broker_id, lambda: self.loop.call_soon(answered, outcomes))

        def answered(outcomes: Any) -> None:
            if not answer.done():
                answer.set_result(outcomes)

        self.world.send(self.broker_id, CONTROLLER, deliver, may_double=False)
        try:
            async with asyncio.timeout(self.settings.request_ms_max / 1000):
                return await answer
        except TimeoutError as error:
            raise ApiError(ErrorCode.request_timed_out) from error

    # Replication

    async def _follow_leader(self, where: TopicPartition, partition: Partition) -> None:
        while True:
            follower = partition.follower
            if follower is None:
                await self._follow[where].wait(1.0)
                continue
            await partition.settle()
            if partition.follower is not follower:
                continue
            fetch, me = follower.next_fetch(), Member(self.broker_id, self.broker_epoch)
            try:
                answer, data = await self.connections.ask(
                    follower.state.leader,
                    f"{REPLICAS} {where}",
                    lambda leader, fetch=fetch, me=me: leader.serve_replica(where, me, fetch),
                    self.settings.request_ms_max,
                )
            except PeerError:
                await asyncio.sleep(self.settings.retry_ms / 1000)
                continue
            if partition.follower is not follower:
                continue
            try:
                await self._fetched(partition, follower, answer, data)
            except StorageError as error:
                raise AssertionError(str(error)) from error  # a replica that cannot follow

    async def _fetched(
        self, partition: Partition, follower: PartitionFollower, answer: ReplicaAnswer, data: bytes
    ) -> None:
        match follower.answered(answer):
            case AppendRecords():
                partition.log.append_fetched(data, now_ms=self.now_ms())
                await partition.settle()
            case TruncateTo(offset):
                self.world.note(
                    f"{self.broker_id}: {partition.topic}-{partition.index} truncates "
                    f"from {partition.log.log_end_offset} to {offset}"
                )
                partition.log.truncate_to(offset)
                await partition.settle()
            case StartAt(offset):
                partition.log.restart_at(offset)
            case Retry() | Stop():
                await asyncio.sleep(self.settings.retry_ms / 1000)
            case FetchAgain():
                pass
        if partition.follower is follower:
            follower.flushed()
            partition.follower_moved()

    async def serve_replica(
        self, where: TopicPartition, replica: Member, fetch: ReplicaFetch
    ) -> tuple[ReplicaAnswer, bytes]:
        partition, news = self.partitions.all[where], _News(replica.broker_id)
        deadline_ms = self.world.now_ms + self.settings.fetch_wait_ms_max
        while True:
            leader, log = partition.leader, partition.log
            if leader is None:
                return ReplicaAnswer(ErrorCode.not_leader_or_follower), b""
            refusal = leader.maybe_refuse(replica, fetch)
            if refusal is not None:
                return refusal, b""
            partition.replica_fetched(replica, fetch)
            data = bytes(log.read(fetch.offset, READ_BYTES, end_offset=log.flushed_end_offset))
            told = self._told.get((where, replica.broker_id))
            if data or told != partition.high_watermark or self.world.now_ms >= deadline_ms:
                self._told[where, replica.broker_id] = partition.high_watermark
                return leader.answer(has_records=bool(data)), data
            partition.add_reader(news, is_replica=True)
            try:
                await news.wait((deadline_ms - self.world.now_ms) / 1000)
            finally:
                partition.remove_reader(news)


class _Controller:
    """What a broker knows of the metadata."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._layers = ConfigLayers(broker.broker_id, {})
        self.publisher = SimpleNamespace(settled=self._settled)

    def topic_config(self, name: str) -> TopicConfig:
        return self._layers.topic(self.image, name)

    @property
    def image(self) -> MetadataImage:
        return self._broker.image

    def subscribe(self, subscriber: Callable[[Any], None]) -> None:
        self._broker._subscribers.append(subscriber)

    async def _settled(self) -> None:
        """The partitions are open from the start."""


class _News(Wakeup):
    """For one replica. A partition keeps its readers in a set, whose order must not depend on addresses."""

    def __init__(self, broker_id: int) -> None:
        super().__init__()
        self._broker_id = broker_id

    def __hash__(self) -> int:
        return self._broker_id

    def data_arrived(self, size: int) -> None:
        self.wake()


def as_object(body: Any) -> Any:
    if isinstance(body, dict):
        return SimpleNamespace(**{name: as_object(value) for name, value in body.items()})
    if type(body) in (list, tuple):
        return [as_object(each) for each in body]
    return body
