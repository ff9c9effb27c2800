"""A broker process takes its place in the cluster."""

from __future__ import annotations

from penstock.metadata.image import METADATA_VERSION, METADATA_VERSION_LEVEL, MetadataImage
from penstock.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    NewLeaderEpochsRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)


def register_alone(image: MetadataImage, registration: RegisterBrokerRecord) -> list[MetadataRecord]:
    """The records with which the only node of a cluster begins to serve.

    Whatever its last incarnation led gets a new leader epoch. No process may append in an epoch that was
    begun by an earlier one: what that one wrote after its last flush may be lost, and then one
    (epoch, offset) would stand for two different messages.
    """
    records: list[MetadataRecord] = []
    if METADATA_VERSION not in image.features:
        records.append(FeatureLevelRecord(METADATA_VERSION, METADATA_VERSION_LEVEL))
    records.append(registration)
    if image.topics:
        records.append(NewLeaderEpochsRecord(registration.broker_id))
    records.append(UnfenceBrokerRecord(registration.broker_id, registration.broker_epoch))
    return records
