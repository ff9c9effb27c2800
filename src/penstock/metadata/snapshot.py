"""An image as the shortest list of records that add up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RetireStorageRecord,
    ShutdownBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.metadata.image import BrokerImage, MetadataImage, TopicImage

_NOBODY = -1


def snapshot_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    for name, level in image.features.items():
        yield FeatureLevelRecord(name, level)
    if image.cluster_id is not None:
        yield ClusterRecord(image.cluster_id)
    for storage_id in sorted(image.retired):
        yield RetireStorageRecord(storage_id)
    for broker in image.brokers.values():
        yield from _broker(broker)
    for topic in image.topics.values():
        yield from _topic(topic)
    for resource, overrides in image.overrides.items():
        for name, text in overrides.items():
            yield ConfigRecord(*resource, name, text)
    if image.next_producer_id:
        yield ProducerIdsRecord(_NOBODY, image.next_producer_id)


def _broker(broker: BrokerImage) -> Iterator[MetadataRecord]:
    yield RegisterBrokerRecord(
        broker.id, broker.epoch, broker.incarnation, broker.storage_id, broker.host, broker.port, broker.rack
    )
    if not broker.fenced:
        yield UnfenceBrokerRecord(broker.id, broker.epoch)
    if broker.stopping:
        yield ShutdownBrokerRecord(broker.id, broker.epoch)


def _topic(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(topic.name, topic.topic_id)
    for index, each in topic.partitions.items():
        yield PartitionRecord(
            topic.topic_id, index, each.replicas, each.isr, each.leader, each.leader_epoch,
            each.partition_epoch, each.adding or None, each.removing or None,
            last_isr=each.last_isr or None, wiped=each.wiped or None, offline=each.offline or None,
            borrowed=each.borrowed or None,
        )  # fmt: skip
