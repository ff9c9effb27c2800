"""Decisions about brokers: a process takes its place, is fenced, returns, stops, goes for good.

A process is an incarnation of its broker. It begins fenced, so that whatever the last one led goes to another
replica or waits: no process appends in a leader epoch that an earlier one began, since what that one wrote
after its last flush may be gone, and then one (epoch, offset) would stand for two messages.

A broker that comes with another data folder, or from a stop that may have cost it data, is out of all in-sync
sets in the batch that registers it. One that left for good does not come back with the folder that it had:
its process may still run, or may have been down meanwhile and know nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.image import (
    METADATA_VERSION,
    METADATA_VERSION_LEVEL,
    BrokerImage,
    MetadataImage,
    ResourceType,
)
from penstock.metadata.internal_topics import is_coordinators
from penstock.metadata.leadership import Liveness, Loss, MinInsync, replicas_of, settle_replicas_of
from penstock.metadata.records import (
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RetireStorageRecord,
    ShutdownBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class Registration:
    broker_id: int
    incarnation: UUID
    storage_id: UUID
    host: str
    port: int
    rack: str | None = None
    is_clean: bool = True
    """Whether the storage holds all that the last incarnation had written, synced or not."""
    is_damaged: bool = False
    """Whether a log lacks even what was synced: then no flush policy says that another is whole."""


def register_broker(
    image: MetadataImage,
    registration: Registration,
    *,
    broker_epoch: int,
    is_alive: bool,
    min_insync: MinInsync,
) -> tuple[list[MetadataRecord], int]:
    """Returns the broker epoch in force: `broker_epoch`, or the earlier one of an incarnation that is known.

    `is_alive` says whether the process that is registered under this id was heard of within its session. With
    the same storage it is dead nevertheless: a data folder is locked by the process that uses it.
    """
    if registration.storage_id in image.retired:
        raise ApiError(
            ErrorCode.broker_id_not_registered,
            f"Broker {registration.broker_id} was decommissioned; to join again it needs a new data folder.",
        )
    known = image.brokers.get(registration.broker_id)
    if known is not None and known.incarnation == registration.incarnation:
        return [], known.epoch
    is_wiped = known is None or known.storage_id != registration.storage_id
    if known is not None and is_wiped and is_alive and not known.fenced:
        raise ApiError(
            ErrorCode.duplicate_broker_registration,
            f"Another broker is running as {registration.broker_id}, at {known.host}:{known.port},"
            " with a data folder of its own: each broker needs its own id.",
        )
    cause = _cause_of_registration(known, registration)
    records: list[MetadataRecord] = []
    if METADATA_VERSION not in image.features:
        records.append(FeatureLevelRecord(METADATA_VERSION, METADATA_VERSION_LEVEL))
    records.append(
        RegisterBrokerRecord(
            registration.broker_id, broker_epoch, registration.incarnation, registration.storage_id,
            registration.host, registration.port, registration.rack, cause,
        )
    )  # fmt: skip
    records += settle_replicas_of(
        image,
        registration.broker_id,
        Liveness.of(image).without(registration.broker_id),
        min_insync,
        f"broker {registration.broker_id} started: {cause}",
        loss_in=lambda topic: _maybe_loss(image, registration, is_wiped, topic),
        offline=(),  # the new process will say what it cannot open
    )
    return records, broker_epoch


def _maybe_loss(image: MetadataImage, registration: Registration, is_wiped: bool, topic: str) -> Loss | None:
    # Under flush=commit what was acknowledged was synced before, however the last process ended.
    is_synced = is_coordinators(topic) or image.configs(ResourceType.TOPIC, topic).get("flush") == "commit"
    is_whole = registration.is_clean or (is_synced and not registration.is_damaged)
    return None if is_whole and not is_wiped else Loss(registration.broker_id, is_wiped)


def _cause_of_registration(known: BrokerImage | None, registration: Registration) -> str:
    if known is None:
        return "new in the cluster"
    if known.storage_id != registration.storage_id:
        return "its data folder is another one than before"
    if registration.is_damaged:
        return "its last stop was not clean: a log lacks what it should have"
    if not registration.is_clean:
        return "its last stop was not clean"
    return "a new process on the same data"


def fence_broker(
    image: MetadataImage, broker_id: int, cause: str, min_insync: MinInsync
) -> list[MetadataRecord]:
    """The broker is taken for dead. Nothing to do for one that is fenced or not registered (any more)."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return []
    brokers = Liveness.of(image).without(broker_id)
    return [
        FenceBrokerRecord(broker_id, broker.epoch, cause),
        *settle_replicas_of(image, broker_id, brokers, min_insync, f"broker {broker_id} was fenced: {cause}"),
    ]


def unfence_broker(image: MetadataImage, broker_id: int, min_insync: MinInsync) -> list[MetadataRecord]:
    """The broker has caught up with the metadata. It leads what waited for it."""
    broker = _registered(image, broker_id)
    if broker.stopping or not broker.fenced:
        return []
    brokers = Liveness.of(image).with_electable(broker_id)
    return [
        UnfenceBrokerRecord(broker_id, broker.epoch),
        *settle_replicas_of(image, broker_id, brokers, min_insync, f"broker {broker_id} is back"),
    ]


def report_offline(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    offline: Collection[UUID],
    min_insync: MinInsync,
) -> list[MetadataRecord]:
    """A broker says which replicas, by `replica_id`, are out of service there: all there are."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        return []
    if not offline and not any(broker_id in each.offline for _, _, each in replicas_of(image, broker_id)):
        return []  # as nearly always
    changes = settle_replicas_of(image, broker_id, Liveness.of(image), min_insync, "", offline=offline)
    return [replace(each, cause=_cause_of_report(broker_id, each)) for each in changes]


def _cause_of_report(broker_id: int, change: PartitionChangeRecord) -> str:
    is_offline = broker_id in (change.offline or ())
    return f"the replica on broker {broker_id} is {'out of service' if is_offline else 'in service again'}"


def stop_broker(image: MetadataImage, broker_id: int, min_insync: MinInsync) -> list[MetadataRecord]:
    """The broker asks to stop. What nobody else can lead it leads until it is fenced."""
    broker = _registered(image, broker_id)
    if broker.stopping or broker.fenced:
        return []
    brokers = Liveness.of(image).with_stopping(broker_id)
    return [
        ShutdownBrokerRecord(broker_id, broker.epoch),
        *settle_replicas_of(image, broker_id, brokers, min_insync, f"broker {broker_id} stops"),
    ]


def unregister_broker(image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
    broker = _registered(image, broker_id)
    held = [f"{topic.name}-{partition}" for topic, partition, _ in replicas_of(image, broker_id)]
    if held:
        raise ApiError(
            ErrorCode.invalid_request,
            f"Broker {broker_id} holds {len(held)} replica(s), of {held[0]} and perhaps others;"
            " decommission it first.",
        )
    if all(other.id == broker_id for other in image.electable_brokers()):
        raise ApiError(
            ErrorCode.invalid_request,
            f"Broker {broker_id} cannot be decommissioned: no other broker is alive.",
        )
    return [UnregisterBrokerRecord(broker_id, broker.epoch), RetireStorageRecord(broker.storage_id)]


def _registered(image: MetadataImage, broker_id: int) -> BrokerImage:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.broker_id_not_registered, f"No broker {broker_id} is registered.")
    return broker
