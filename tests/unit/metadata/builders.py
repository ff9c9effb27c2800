"""Images for tests, built from records as any image is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.image import ImageDraft, MetadataImage, ResourceType
from penstock.metadata.records import (
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.metadata.image import MetadataDelta
    from penstock.metadata.records import MetadataRecord

STORAGE_ID = UUID(int=77)


def apply(image: MetadataImage, records: Iterable[MetadataRecord]) -> tuple[MetadataImage, MetadataDelta]:
    draft = ImageDraft(image)
    for record in records:
        draft.apply(record)
    return draft.finish()


def registration(broker_id: int, epoch: int = 0) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id, epoch, UUID(int=1000 + epoch), STORAGE_ID, "localhost", 9091 + broker_id
    )


def cluster(brokers: int = 1) -> MetadataImage:
    records: list[MetadataRecord] = []
    for broker_id in range(1, brokers + 1):
        records += [registration(broker_id), UnfenceBrokerRecord(broker_id, 0)]
    return apply(MetadataImage(), records)[0]


def with_topic(
    image: MetadataImage,
    name: str,
    *,
    topic_id: int = 1,
    partitions: int = 1,
    replicas: tuple[int, ...] = (1,),
    configs: Mapping[str, str] | None = None,
) -> MetadataImage:
    identity = UUID(int=topic_id)
    records: list[MetadataRecord] = [TopicRecord(name, identity)]
    records += [
        PartitionRecord(identity, index, replicas, replicas, replicas[0], 0, 0) for index in range(partitions)
    ]
    records += [ConfigRecord(ResourceType.TOPIC, name, key, text) for key, text in (configs or {}).items()]
    return apply(image, records)[0]
