"""A broker process takes its place in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.image import METADATA_VERSION, METADATA_VERSION_LEVEL, MetadataImage
from penstock.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def register_alone(image: MetadataImage, registration: RegisterBrokerRecord) -> list[MetadataRecord]:
    """The records with which the only node of a cluster begins to serve."""
    records: list[MetadataRecord] = []
    if METADATA_VERSION not in image.features:
        records.append(FeatureLevelRecord(METADATA_VERSION, METADATA_VERSION_LEVEL))
    records.append(registration)
    records += new_epochs(image, registration.broker_id)
    records.append(UnfenceBrokerRecord(registration.broker_id, registration.broker_epoch))
    return records


def new_epochs(image: MetadataImage, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """A new leader epoch for whatever the broker's last incarnation led.

    No process may append in an epoch that was begun by an earlier one: what that one wrote after its last
    flush may be lost, and then one (epoch, offset) would stand for two different messages.
    """
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if partition.leader == broker_id:
                yield PartitionChangeRecord(
                    topic.topic_id,
                    index,
                    partition.partition_epoch + 1,
                    leader_epoch=partition.leader_epoch + 1,
                )
