"""The active controller, for transactions: real decisions on an image that is committed at once.

It hears of a crash after a while, fences brokers by mistake, and moves leaders as somebody who balances load
would. Brokers learn of it late and in jumps, so that some lead on who no longer do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.brokers import Registration, fence_broker, register_broker, unfence_broker
from penstock.metadata.image import ImageDraft, MetadataImage, PartitionImage
from penstock.metadata.leadership import advanced, change_record
from penstock.metadata.partition_changes import IsrChange, IsrOutcome, alter_partitions
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord

if TYPE_CHECKING:
    from penstock.types import TopicPartition
    from tests.sim.transaction_cluster import Cluster

CONTROLLER = 0


class ActiveController:
    def __init__(self, cluster: Cluster, topics: dict[str, int]) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.image = MetadataImage()
        self.offset = 0
        self.starts = 0
        for broker_id in cluster.broker_ids:
            self.register(broker_id)
            self.commit(unfence_broker(self.image, broker_id, self.min_insync))
        self.create_topics(topics)

    def create_topics(self, topics: dict[str, int]) -> None:
        random = self.world.stream("replicas")
        brokers = list(self.cluster.broker_ids)
        for number, (name, partitions) in enumerate(topics.items(), start=1):
            records: list[MetadataRecord] = [TopicRecord(name, UUID(int=number))]
            for index in range(partitions):
                replicas = tuple(random.sample(brokers, len(brokers)))
                records.append(
                    PartitionRecord(UUID(int=number), index, replicas, replicas, replicas[0], 0, 0)
                )
            self.commit(records)

    def min_insync(self, topic: str) -> int:  # all are alike
        return self.cluster.settings.min_insync_replicas

    def partition(self, where: TopicPartition) -> PartitionImage:
        return self.image.topics[where.topic].partitions[where.partition]

    def commit(self, records: list[MetadataRecord]) -> None:
        if not records:
            return
        draft, before = ImageDraft(self.image), self.image
        for record in records:
            draft.apply(record)
        self.image, _ = draft.finish()
        self.offset += 1
        for name, topic in self.image.topics.items():
            known = before.topics[name].partitions if name in before.topics else {}
            for index, partition in topic.partitions.items():
                if index not in known or known[index].leader_epoch != partition.leader_epoch:
                    self.world.note(
                        f"{name}-{index}: leader {partition.leader} epoch {partition.leader_epoch} "
                        f"isr {partition.isr}"
                    )
        for broker_id in self.cluster.broker_ids:
            self.tell(broker_id)

    def tell(self, broker_id: int) -> None:
        image, offset = self.image, self.offset

        def deliver() -> None:
            broker = self.cluster.running.get(broker_id)
            if broker is not None:
                broker.loop.call_soon(broker.metadata, image, offset)

        self.world.send(CONTROLLER, broker_id, deliver)

    # Brokers

    def register(self, broker_id: int) -> int:
        self.starts += 1
        registration = Registration(broker_id, UUID(int=self.starts), UUID(int=broker_id), "host", 9092)
        records, broker_epoch = register_broker(
            self.image, registration, broker_epoch=self.offset + 1, is_alive=False, min_insync=self.min_insync
        )
        self.commit(records)
        return broker_epoch

    def heartbeat(self, broker_id: int, broker_epoch: int, offset: int) -> None:
        broker = self.image.brokers[broker_id]
        if broker.epoch == broker_epoch and broker.fenced and offset >= broker_epoch:
            self.world.note(f"{broker_id} is unfenced")
            self.commit(unfence_broker(self.image, broker_id, self.min_insync))
        elif offset < self.offset:
            self.tell(broker_id)

    def fence(self, broker_id: int, cause: str) -> None:
        records = fence_broker(self.image, broker_id, cause, self.min_insync)
        if records:
            self.world.note(f"{broker_id} is fenced: {cause}")
            self.commit(records)

    # Partitions

    def move_leader(self, where: TopicPartition, leader: int) -> None:
        before = self.partition(where)
        if leader != before.leader >= 0 and leader in before.isr and self.image.brokers[leader].electable:
            after = advanced(before, before._replace(leader=leader))
            topic_id = self.image.topics[where.topic].topic_id
            self.commit([change_record(topic_id, where.partition, before, after, "moved")])

    def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: list[IsrChange]
    ) -> list[IsrOutcome]:
        records, outcomes = alter_partitions(self.image, broker_id, broker_epoch, changes, self.min_insync)
        self.commit(records)
        return outcomes
