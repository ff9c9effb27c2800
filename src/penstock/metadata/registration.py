"""A broker process takes its place in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.image import METADATA_VERSION, METADATA_VERSION_LEVEL, NO_LEADER, MetadataImage
from penstock.metadata.leadership import Liveness, change_record, replicas_of, settled
from penstock.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    NewLeaderEpochsRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def register_alone(image: MetadataImage, registration: RegisterBrokerRecord) -> list[MetadataRecord]:
    """The records with which the only node of a cluster begins to serve.

    Whatever its last incarnation led gets a new leader epoch. No process may append in an epoch that was
    begun by an earlier one: what that one wrote after its last flush may be lost, and then one
    (epoch, offset) would stand for two different messages. What had no leader waited for this node.
    """
    records: list[MetadataRecord] = []
    if METADATA_VERSION not in image.features:
        records.append(FeatureLevelRecord(METADATA_VERSION, METADATA_VERSION_LEVEL))
    records.append(registration)
    if image.topics:
        records.append(NewLeaderEpochsRecord(registration.broker_id))
        records += _waiting(image, registration.broker_id)
    records.append(UnfenceBrokerRecord(registration.broker_id, registration.broker_epoch))
    return records


def _waiting(image: MetadataImage, broker_id: int) -> Iterator[MetadataRecord]:
    brokers = Liveness.of(image).with_electable(broker_id)
    for topic, index, before in replicas_of(image, broker_id):
        if before.leader == NO_LEADER:
            after = settled(before, brokers, minimum=len(before.isr))
            if after is not before:
                cause = f"broker {broker_id} started"
                yield change_record(topic.topic_id, index, before, after, cause)
