"""A node's part in the metadata: its copy of the log, its place in the quorum, and what the log adds up to.

Every node has one. On a controller it votes and may lead; elsewhere it only follows. `image` is the committed
state as this node knows it. Changes are made by the active controller alone: on any other node the methods
that change something raise NOT_CONTROLLER, and requests are sent on (see broker/controller_channel.py).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.controller.active import ActiveController
from penstock.controller.metadata_log import METADATA_LOG, MetadataLog, Snapshot
from penstock.controller.patience import Patience
from penstock.controller.publisher import MetadataPublisher
from penstock.controller.quorum_driver import QuorumDriver
from penstock.metadata import (
    alterations,
    brokers,
    elections,
    partition_changes,
    reassignments,
    topics,
)
from penstock.metadata.assignments import NewTopic, TopicDefaults
from penstock.metadata.broker_configs import REPLICATION_FACTOR_DEFAULT_MAX
from penstock.metadata.config_layers import ConfigLayers
from penstock.metadata.configs import TOPIC_CONFIGS, check_node_defaults
from penstock.metadata.internal_topics import is_coordinators
from penstock.metadata.leadership import replicas_of
from penstock.metadata.records import MetadataRecord, ProducerIdsRecord, RegisterBrokerRecord
from penstock.metadata.registration import register_alone
from penstock.metadata.snapshot import snapshot_records
from penstock.quorum.limits import QuorumLimits
from penstock.quorum.voters import Voter, VoterSet
from penstock.replication.divergence import LogEnd
from penstock.storage.errors import StorageError
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from penstock.config import NodeConfig
    from penstock.controller.publisher import Subscriber
    from penstock.metadata.alterations import ConfigOutcome, ResourceAlteration
    from penstock.metadata.assignments import NewPartitions
    from penstock.metadata.configs import TopicConfig
    from penstock.metadata.elections import ElectionOutcome
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.load import BrokerLoad
    from penstock.metadata.moves import Move
    from penstock.metadata.partition_changes import IsrChange, IsrOutcome
    from penstock.metadata.reassignments import Reassignment, ReassignmentOutcome
    from penstock.metadata.recovery import Ends
    from penstock.metadata.topics import TopicOutcome, TopicReference
    from penstock.peers.peers import Peers
    from penstock.storage.interface import Storage
    from penstock.types import TopicPartition

log = logging.getLogger(__name__)

INTERNAL_TOPIC_GRACE_S: Final = 30.0


class Controller:
    def __init__(
        self,
        storage: Storage,
        config: NodeConfig,
        peers: Peers,
        *,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
        new_cluster_id: Callable[[], str],
        on_failure: Callable[[Exception], None],
    ) -> None:
        check_node_defaults(config.topic_defaults)
        flush = {} if config.flush == TOPIC_CONFIGS["flush"].default else {"flush": config.flush}
        self.layers = ConfigLayers(config.node_id, {**flush, **config.topic_defaults})
        self.defaults = TopicDefaults(
            int(config.topic_defaults.get("num.partitions", "1")),
            int(config.topic_defaults.get("default.replication.factor", REPLICATION_FACTOR_DEFAULT_MAX)),
        )
        self._storage = storage
        self._config = config
        self._peers = peers
        self._now_ms = now_ms
        self._new_uuid = new_uuid
        self._new_cluster_id = new_cluster_id
        self._on_failure = on_failure
        self._changed = asyncio.Event()
        """Pulsed at every commit and every change of the leader."""
        self._log_level = logging.DEBUG if config.is_alone else logging.INFO
        """Of what happens between nodes, which is no news where there is one."""
        self._brokers_awaited = Patience(INTERNAL_TOPIC_GRACE_S)
        """By internal topics, which are not created with fewer replicas than they should have before that."""
        self._failure: Exception | None = None
        self._log: MetadataLog | None = None
        self._driver: QuorumDriver | None = None
        self._publisher: MetadataPublisher | None = None
        self._active: ActiveController | None = None

    # Life

    async def start(self) -> None:
        """Open the log and take part in the quorum."""
        logs = [name for name, _ in self._storage.logs()]
        if logs and METADATA_LOG not in logs:
            raise StorageError(
                f"{METADATA_LOG} is missing, and without it nobody knows what {logs[0]} and others belong to"
            )
        config = self._config
        self._log = MetadataLog(self._storage, now_ms=self._now_ms())
        self._publisher = MetadataPublisher(self._log, self._log_level)
        if self._log.snapshot is not None:
            self._publisher.restore()
        me = Voter(config.node_id, self._storage.storage_id)
        voters = VoterSet.of_ids(config.controllers or (config.node_id,))
        limits = QuorumLimits.of_election(
            config.cluster.controller_election_ms_min, config.cluster.controller_election_ms_max
        )
        self._driver = QuorumDriver(
            me, voters, self._log, self._peers, limits, self,
            cluster_id=lambda: self._storage.cluster_id, now_ms=self._now_ms,
        )  # fmt: skip
        self._active = ActiveController(
            self._driver, self._publisher, self._peers, config.cluster, balancer=config.balancer,
            min_insync=self.min_insync_replicas,
            is_unclean_allowed=lambda topic: self.topic_config(topic).unclean_leader_election_enable,
            new_cluster_id=lambda: self._storage.cluster_id or self._new_cluster_id(),
            end_offset=lambda: self.log.end_offset,
            watches_brokers=not config.is_alone,
        )  # fmt: skip
        self._driver.start()

    async def leave_quorum(self) -> None:
        """Finish the change under way, refuse further ones, give up leadership and vote no more."""
        if self._active is not None:
            await self._active.stop()
        if self._driver is not None:
            await self._driver.stop()

    async def stop(self) -> None:
        """Leave the quorum and close the log."""
        await self.leave_quorum()
        if self._publisher is not None:
            await self._publisher.stop()
        if self._log is not None:
            self._log.close()
            self._log = None

    @property
    def log(self) -> MetadataLog:
        assert self._log is not None, "the controller has not been started"
        return self._log

    @property
    def driver(self) -> QuorumDriver:
        assert self._driver is not None, "the controller has not been started"
        return self._driver

    @property
    def publisher(self) -> MetadataPublisher:
        assert self._publisher is not None, "the controller has not been started"
        return self._publisher

    @property
    def active(self) -> ActiveController:
        """The active controller; NOT_CONTROLLER if that is another node, or nobody."""
        if self._active is None or self._log is None:
            raise ApiError(ErrorCode.broker_not_available, "the controller is not running")
        self._active.check()
        return self._active

    @property
    def is_active(self) -> bool:
        return self._active is not None and self._active.epoch is not None

    # What the quorum's driver says

    def committed(self, high_watermark: int) -> None:
        assert self._active is not None
        self.publisher.committed(high_watermark)
        cluster_id = self.image.cluster_id
        if cluster_id and cluster_id != self._storage.cluster_id:
            if self._storage.cluster_id:
                raise StorageError(
                    f"this node's data belong to cluster {self._storage.cluster_id},"
                    f" and its controllers are of cluster {cluster_id}"
                )
            self._storage.set_cluster_id(cluster_id)
        self._active.committed(high_watermark)
        self._maybe_snapshot()
        self._pulse()

    def restored(self) -> None:
        self.publisher.restore()
        self._pulse()

    def _maybe_snapshot(self) -> None:
        """Every node takes its own, of what it has applied."""
        end_offset = self.publisher.applied_offset
        if end_offset - self.log.replay_offset < self._config.cluster.metadata_snapshot_records:
            return
        end = LogEnd(self.log.log.epochs.epoch_at(end_offset - 1), end_offset)
        voters = self.driver.core.voters_at(end_offset)
        if voters is not None:
            self.driver.take_snapshot(Snapshot(end, voters, list(snapshot_records(self.image))))

    def leader_is(self, epoch: int, leader_id: int | None) -> None:
        assert self._active is not None
        leader = "no leader" if leader_id is None else f"leader {leader_id}"
        log.log(self._log_level, "metadata: epoch %d, %s", epoch, leader)
        self._active.leader_is(epoch, is_me=leader_id == self._config.node_id)
        self._pulse()

    def failed(self, error: Exception) -> None:
        """The quorum cannot go on here. A node that is alone serves what it has, and changes nothing."""
        assert self._active is not None
        log.error("the metadata log fails: %s", error)
        if self._config.is_alone and self.is_active:
            self._active.fail(error)
        else:
            self._failure = error
            self._on_failure(error)
        self._pulse()

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition, about image or leader, holds."""
        while not condition():
            if self._failure is not None:
                raise self._failure
            await self._changed.wait()

    # What is known

    @property
    def image(self) -> MetadataImage:
        return self.publisher.image

    @property
    def leader_id(self) -> int | None:
        """The active controller, as far as this node knows."""
        return None if self._driver is None else self._driver.core.leader_id

    @property
    def loads(self) -> Mapping[int, BrokerLoad]:
        """How busy brokers are, which the active controller alone knows."""
        return self.active.balancing.loads() if self.is_active else {}

    def topic_config(self, name: str) -> TopicConfig:
        """The values in force for a topic."""
        return self.layers.topic(self.image, name)

    def min_insync_replicas(self, name: str) -> int:
        return self.topic_config(name).min_insync_replicas

    async def begin(self, load: Callable[[MetadataImage], Awaitable[None]]) -> None:
        await self.publisher.begin(load)

    def subscribe(self, callback: Subscriber) -> None:
        """`callback` is told of what is committed, change by change, after `begin`."""
        self.publisher.subscribe(callback)

    # Changes

    async def register_alone(self, host: str, port: int) -> int:
        """Of the only node of a cluster, which nobody watches."""
        await self.until(lambda: self.is_active)
        broker_epoch = self.log.end_offset
        registration = RegisterBrokerRecord(
            self._config.node_id,
            broker_epoch,
            self._new_uuid(),
            self._storage.storage_id,
            host,
            port,
            self._config.rack,
        )
        await self.active.change(lambda image: (register_alone(image, registration), None))
        return broker_epoch

    async def create_topics(
        self, new_topics: Sequence[NewTopic], *, validate_only: bool = False, allow_internal: bool = False
    ) -> list[TopicOutcome]:
        topic_ids = [self._new_uuid() for _ in new_topics]
        now_s = asyncio.get_running_loop().time()
        outcomes = await self.active.change(
            lambda image: topics.create_topics(
                image,
                new_topics,
                topic_ids=topic_ids,
                defaults=self.defaults,
                allow_internal=allow_internal,
                waits_for_brokers=self._brokers_awaited.is_left(now_s),
            ),
            validate_only=validate_only,
        )
        for outcome in outcomes:
            if outcome.error is None and outcome.name is not None and is_coordinators(outcome.name):
                self._brokers_awaited.found()
            elif outcome.error is not None and outcome.error.code is ErrorCode.coordinator_not_available:
                self._brokers_awaited.missed(now_s)
        return outcomes

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[TopicOutcome]:
        return await self.active.change(
            lambda image: topics.create_partitions(image, requests), validate_only=validate_only
        )

    async def delete_topics(self, references: Sequence[TopicReference]) -> list[TopicOutcome]:
        return await self.active.change(lambda image: topics.delete_topics(image, references))

    async def alter_configs(
        self, requests: Sequence[ResourceAlteration], *, validate_only: bool = False
    ) -> list[ConfigOutcome]:
        """AlterConfigs: what is not named goes back to its default."""
        return await self.active.change(
            lambda image: alterations.replace_configs(image, requests), validate_only=validate_only
        )

    async def incremental_alter_configs(
        self, requests: Sequence[ResourceAlteration], *, validate_only: bool = False
    ) -> list[ConfigOutcome]:
        return await self.active.change(
            lambda image: alterations.alter_configs(image, requests), validate_only=validate_only
        )

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> list[IsrOutcome]:
        return await self.active.change(
            lambda image: partition_changes.alter_partitions(
                image,
                broker_id,
                broker_epoch,
                changes,
                self.min_insync_replicas,
            )
        )

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, kind: int
    ) -> list[ElectionOutcome]:
        elections.check_type(kind)
        ends: Mapping[TopicPartition, Ends] = {}
        if kind == elections.ElectionType.UNCLEAN:
            image = self.image
            waiting = elections.without_leader(image, partitions)
            ends = await self.active.recovery.ask_ends(image, waiting)
        return await self.active.change(lambda image: elections.elect_leaders(image, partitions, kind, ends))

    async def balance(self, *, is_dry_run: bool) -> list[Move]:
        """What the balancer does, or would do, if it does not wait for anything."""
        return await self.active.balancing.at_once(is_dry_run=is_dry_run)

    async def alter_reassignments(self, requests: Sequence[Reassignment]) -> list[ReassignmentOutcome]:
        return await self.active.change(
            lambda image: reassignments.alter_reassignments(image, requests, self.min_insync_replicas)
        )

    async def decommission(self, broker_id: int) -> None:
        """Move away what the broker holds, or remove it when nothing is left; until then an ApiError."""

        def decide(image: MetadataImage) -> tuple[Sequence[MetadataRecord], int]:
            left = sum(1 for _ in replicas_of(image, broker_id))
            if not left:
                return brokers.unregister_broker(image, broker_id), 0
            records, _ = reassignments.decommission(image, broker_id, self.min_insync_replicas)
            return records, left

        left = await self.active.change(decide)
        if left:
            raise ApiError(
                ErrorCode.reassignment_in_progress,
                f"Broker {broker_id} still holds {left} replica(s), which are being moved.",
            )

    async def allocate_producer_ids(self, broker_id: int, count: int) -> range:
        """A block of ids that nobody was given before; committed when it returns."""

        def decide(image: MetadataImage) -> tuple[list[MetadataRecord], range]:
            block = range(image.next_producer_id, image.next_producer_id + count)
            return [ProducerIdsRecord(broker_id, block.stop)], block

        return await self.active.change(decide)
