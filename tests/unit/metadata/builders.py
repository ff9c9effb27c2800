"""Images for tests, built from records as any image is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.brokers import fence_broker
from penstock.metadata.image import ImageDraft, MetadataImage, ResourceType
from penstock.metadata.records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.metadata.image import MetadataDelta, PartitionImage
    from penstock.metadata.leadership import MinInsync
    from penstock.metadata.records import MetadataRecord

STORAGE_ID = UUID(int=77)


def apply(image: MetadataImage, records: Iterable[MetadataRecord]) -> tuple[MetadataImage, MetadataDelta]:
    draft = ImageDraft(image)
    for record in records:
        draft.apply(record)
    return draft.finish()


def registration(broker_id: int, epoch: int = 0, rack: str | None = None) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id, epoch, UUID(int=1000 + epoch), STORAGE_ID, "localhost", 9091 + broker_id, rack
    )


def cluster(brokers: int = 1, racks: Sequence[str | None] = (None,)) -> MetadataImage:
    """Brokers stand in these racks, in turn."""
    records: list[MetadataRecord] = []
    for broker_id in range(1, brokers + 1):
        rack = racks[(broker_id - 1) % len(racks)]
        records += [registration(broker_id, rack=rack), UnfenceBrokerRecord(broker_id, 0)]
    return apply(MetadataImage(), records)[0]


def with_topic(
    image: MetadataImage,
    name: str,
    *,
    topic_id: int = 1,
    partitions: int = 1,
    replicas: tuple[int, ...] = (1,),
    isr: tuple[int, ...] | None = None,
    configs: Mapping[str, str] | None = None,
) -> MetadataImage:
    identity = UUID(int=topic_id)
    isr = replicas if isr is None else isr
    records: list[MetadataRecord] = [TopicRecord(name, identity)]
    records += [PartitionRecord(identity, index, replicas, isr, isr[0], 0, 0) for index in range(partitions)]
    records += [ConfigRecord(ResourceType.TOPIC, name, key, text) for key, text in (configs or {}).items()]
    return apply(image, records)[0]


def partition_of(image: MetadataImage, topic: str = "t", index: int = 0) -> PartitionImage:
    return image.topics[topic].partitions[index]


def at_least(minimum: int) -> MinInsync:
    """min.insync.replicas of all topics."""
    return lambda _topic: minimum


def fenced(image: MetadataImage, *broker_ids: int, minimum: int = 1) -> MetadataImage:
    """The image after these brokers died, one after the other."""
    for broker_id in broker_ids:
        image, _ = apply(image, fence_broker(image, broker_id, "test", at_least(minimum)))
    return image


def causes(records: Iterable[MetadataRecord]) -> list[str | None]:
    """Why partitions changed."""
    return [record.cause for record in records if isinstance(record, PartitionChangeRecord)]
