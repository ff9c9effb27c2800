"""The active controller of the simulated cluster: real decisions on an image that is committed at once.

That a quorum agrees on the metadata is shown by a simulation of its own. Here requests reach the controller
late, twice or never, and so do its answers; brokers learn of the metadata in jumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.brokers import (
    Registration,
    fence_broker,
    register_broker,
    stop_broker,
    unfence_broker,
)
from penstock.metadata.elections import ElectionType, elect_leaders
from penstock.metadata.image import ImageDraft, MetadataImage, PartitionImage
from penstock.metadata.leadership import advanced, change_record
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.reassignments import Reassignment, alter_reassignments
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from penstock.types import ApiError, ErrorCode, TopicPartition

if TYPE_CHECKING:
    from penstock.replication.leader import Proposal
    from tests.sim.replication import Cluster

CONTROLLER = 0
TOPIC = "t"
TOPIC_ID = UUID(int=1)


class ActiveController:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.image = MetadataImage()
        self.offset = 0
        self.minimum = cluster.settings.min_insync_replicas
        self.heard_at_ms: dict[int, int] = {}
        self.excused: set[int] = set()
        """Who may leave an in-sync set although it has no more members than it must have."""

    @property
    def partitions(self) -> dict[int, PartitionImage]:
        return dict(self.image.topics[TOPIC].partitions) if TOPIC in self.image.topics else {}

    def commit(self, records: list[MetadataRecord]) -> None:
        if not records:
            return
        before = self.partitions
        draft = ImageDraft(self.image)
        for record in records:
            draft.apply(record)
        self.image, _ = draft.finish()
        for index, partition in self.partitions.items():
            if partition != before.get(index):
                self.note(index, partition, before.get(index))
        self.tell_all()
        self.cluster.check_in_sync()

    def note(self, index: int, partition: PartitionImage, before: PartitionImage | None) -> None:
        assert partition.isr, "nobody is in sync, and nothing was lost"
        gone = set(before.isr if before is not None else ()) - set(partition.isr) - self.excused
        assert not gone or len(partition.isr) >= self.minimum, (
            f"partition {index}: the in-sync set is {partition.isr}, below the minimum, without {gone}"
        )
        self.world.note(
            f"partition {index}: leader {partition.leader} epoch {partition.leader_epoch} "
            f"isr {partition.isr} of {partition.replicas} partition epoch {partition.partition_epoch}"
        )

    def tell_all(self) -> None:
        self.offset += 1
        for broker_id in self.cluster.broker_ids:
            self.tell(broker_id)

    def tell(self, broker_id: int) -> None:
        image, offset, minimum = self.image, self.offset, self.minimum
        self.cluster.send(CONTROLLER, broker_id, lambda broker: broker.metadata(image, offset, minimum))

    def min_insync(self, topic: str) -> int:  # there is one topic
        return self.minimum

    # Topics

    def maybe_create_topic(self) -> None:
        live = [broker.id for broker in self.image.live_brokers()]
        if TOPIC in self.image.topics or len(live) < len(self.cluster.broker_ids):
            return
        records: list[MetadataRecord] = [TopicRecord(TOPIC, TOPIC_ID)]
        random = self.world.stream("replicas")
        for index in range(self.cluster.settings.partitions):
            replicas = tuple(random.sample(live, self.cluster.settings.replication_factor))
            records.append(PartitionRecord(TOPIC_ID, index, replicas, replicas, replicas[0], 0, 0))
        self.commit(records)

    # Brokers

    def register(self, registration: Registration) -> int:
        records, broker_epoch = register_broker(
            self.image,
            registration,
            broker_epoch=self.offset + 1,
            is_alive=False,  # one machine has one process at a time
            min_insync=self.min_insync,
        )
        if records:
            self.world.note(f"{registration.broker_id} is registered, epoch {broker_epoch}")
        known = self.image.brokers.get(registration.broker_id)
        if known is None or known.storage_id != registration.storage_id or not registration.is_clean:
            self.excused.add(registration.broker_id)
        if not self.cluster.machines[registration.broker_id].is_suspect or not registration.is_clean:
            self.cluster.lost.discard(registration.broker_id)
        self.commit(records)
        self.excused.clear()
        self.heard_at_ms[registration.broker_id] = self.world.now_ms
        return broker_epoch

    def heartbeat(self, broker_id: int, broker_epoch: int, offset: int, *, wants_to_stop: bool) -> bool:
        """Whether the broker may stop, if it wants to."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch or broker_id in self.cluster.lost:
            # From a process that is gone, or that does not know yet what it has.
            self.tell(broker_id)
            return False
        self.heard_at_ms[broker_id] = self.world.now_ms
        if wants_to_stop and not broker.stopping and not broker.fenced:
            self.world.note(f"{broker_id} is stopping")
            self.commit(stop_broker(self.image, broker_id, self.min_insync))
        elif broker.fenced and offset >= broker_epoch and not broker.stopping and not wants_to_stop:
            self.world.note(f"{broker_id} is unfenced")
            self.commit(unfence_broker(self.image, broker_id, self.min_insync))
        self.tell(broker_id)
        return wants_to_stop and (broker.stopping or broker.fenced)

    def tick(self) -> None:
        self.world.after(self.cluster.settings.session_ms // 4, self.tick)
        self.maybe_create_topic()
        for broker in self.image.live_brokers():
            if self.world.now_ms - self.heard_at_ms[broker.id] > self.cluster.settings.session_ms:
                self.fence(broker.id, "its session has ended")

    def fence(self, broker_id: int, cause: str) -> None:
        records = fence_broker(self.image, broker_id, cause, self.min_insync)
        if records:
            self.world.note(f"{broker_id} is fenced: {cause}")
            self.commit(records)

    # Partitions

    def move_leader(self, index: int, leader: int) -> None:
        """If that is possible, as somebody who balances load would."""
        before = self.partitions[index]
        if leader != before.leader >= 0 and leader in before.isr and self.image.brokers[leader].electable:
            after = advanced(before, before._replace(leader=leader))
            self.commit([change_record(TOPIC_ID, index, before, after, "moved")])

    def elect_preferred_leaders(self) -> None:
        records, _ = elect_leaders(self.image, None, ElectionType.PREFERRED)
        self.commit(records)

    def reassign(self, index: int, target: tuple[int, ...] | None) -> None:
        partitions = [TopicPartition(TOPIC, index)]
        records, _ = alter_reassignments(self.image, [Reassignment(*partitions[0], target)], self.min_insync)
        self.world.note(f"partition {index}: to move to {target}" if target else "the move is cancelled")
        self.commit(records)

    def set_minimum(self, minimum: int) -> None:
        self.world.note(f"the minimum is {minimum}")
        self.minimum = minimum
        self.tell_all()

    def alter_partition(
        self, broker_id: int, broker_epoch: int, index: int, proposal: Proposal
    ) -> tuple[ErrorCode, PartitionImage | None]:
        change = IsrChange(
            TOPIC_ID, index, proposal.leader_epoch, proposal.partition_epoch, tuple(proposal.isr)
        )
        try:
            records, outcomes = alter_partitions(
                self.image, broker_id, broker_epoch, [change], self.min_insync
            )
        except ApiError as error:
            return error.code, None
        self.commit(records)
        outcome = outcomes[0]
        return (outcome.error.code if outcome.error else ErrorCode.none), outcome.state
