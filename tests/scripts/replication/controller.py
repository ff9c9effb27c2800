"""The controller of a script: the real decisions about brokers and in-sync sets, committed at once."""

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
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.reassignments import Reassignment, alter_reassignments
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from penstock.metadata.recovery import Ends, leaderless, recover
from penstock.types import ApiError, ErrorCode, TopicPartition

if TYPE_CHECKING:
    from penstock.replication.leader import Member, Proposal

TOPIC = "t"
TOPIC_ID = UUID(int=1)


class Controller:
    def __init__(self) -> None:
        self.image = MetadataImage()
        self.min_insync_replicas = 1
        self._broker_epochs = 0

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    def _commit(self, records: list[MetadataRecord]) -> None:
        draft = ImageDraft(self.image)
        for record in records:
            draft.apply(record)
        self.image, _ = draft.finish()

    def _min_insync(self, topic: str) -> int:  # there is one topic
        return self.min_insync_replicas

    # Brokers

    def register(self, broker_id: int, incarnation: UUID, storage_id: UUID, *, is_clean: bool) -> int:
        self._broker_epochs += 1
        records, broker_epoch = register_broker(
            self.image,
            Registration(broker_id, incarnation, storage_id, "host", 9092, is_clean=is_clean),
            broker_epoch=self._broker_epochs,
            is_alive=False,
            min_insync=self._min_insync,
        )
        self._commit(records)
        return broker_epoch

    def fence(self, broker_id: int) -> None:
        self._commit(fence_broker(self.image, broker_id, "its session has ended", self._min_insync))

    def unfence(self, broker_id: int) -> None:
        self._commit(unfence_broker(self.image, broker_id, self._min_insync))

    def stop(self, broker_id: int) -> None:
        self._commit(stop_broker(self.image, broker_id, self._min_insync))

    # The partition

    def create(self, replicas: tuple[int, ...]) -> None:
        partition = PartitionRecord(TOPIC_ID, 0, replicas, replicas, replicas[0], 0, 0)
        self._commit([TopicRecord(TOPIC, TOPIC_ID), partition])

    def elect_preferred(self) -> list[ErrorCode]:
        records, outcomes = elect_leaders(self.image, None, ElectionType.PREFERRED)
        self._commit(records)
        return [outcome.error.code for outcome in outcomes if outcome.error is not None]

    def recover(self, ends: Ends) -> None:
        where = {TopicPartition(TOPIC, 0): ends}
        self._commit(recover(self.image, leaderless(self.image), where))

    def elect_unclean(self, ends: Ends) -> list[ErrorCode]:
        where = {TopicPartition(TOPIC, 0): ends}
        records, outcomes = elect_leaders(self.image, None, ElectionType.UNCLEAN, where)
        self._commit(records)
        return [outcome.error.code for outcome in outcomes if outcome.error is not None]

    def reassign(self, replicas: tuple[int, ...]) -> None:
        records, outcomes = alter_reassignments(
            self.image, [Reassignment(TOPIC, 0, replicas)], self._min_insync
        )
        assert all(outcome.error is None for outcome in outcomes)
        self._commit(records)

    def alter_partition(self, leader: Member, proposal: Proposal) -> tuple[ErrorCode, PartitionImage | None]:
        change = IsrChange(TOPIC_ID, 0, proposal.leader_epoch, proposal.partition_epoch, proposal.isr)
        try:
            records, outcomes = alter_partitions(self.image, *leader, [change], self._min_insync)
        except ApiError as error:
            return error.code, None
        self._commit(records)
        (outcome,) = outcomes
        return (outcome.error.code if outcome.error else ErrorCode.none), outcome.state
