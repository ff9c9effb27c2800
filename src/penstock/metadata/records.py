"""What is written to the metadata log, and how.

The state of a cluster is the sum of these records. Each travels as the value of one log record, as JSON with
its type and version first, so that a person can read a metadata log with nothing but a batch decoder::

    {"type":"Topic","version":0,"name":"orders","topic_id":"5c5f…"}

Fields that may be absent are left out when they are None. A `cause` says to the reader of the cluster log why
a change was made; nothing is decided by it. What comes back from a log is checked field by
field: an unknown type, a newer version or a wrong field is an error with a clear line, never a guess.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

Ids = tuple[int, ...]
Texts = tuple[str, ...]


class MetadataRecordError(Exception):
    """Bytes on the metadata log that this version of Penstock cannot take for a record."""


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """`metadata.version` says what the rest of the log may contain."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The identity of the cluster, written once, when it is bootstrapped."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    """A process took its place as a broker. It is fenced until an UnfenceBrokerRecord."""

    broker_id: int
    broker_epoch: int
    incarnation: UUID
    storage_id: UUID
    host: str
    port: int
    rack: str | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class RetireStorageRecord:
    """The data folder of a broker that left for good: whoever comes with it is not let in again."""

    storage_id: UUID


@dataclass(frozen=True, slots=True)
class FenceBrokerRecord:
    broker_id: int
    broker_epoch: int
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class UnfenceBrokerRecord:
    broker_id: int
    broker_epoch: int
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class ShutdownBrokerRecord:
    """The broker is about to stop in good order: it serves what it leads and is elected no more."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class TopicRecord:
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """The topic goes with its partitions and its configs."""

    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    topic_id: UUID
    partition: int
    replicas: Ids
    isr: Ids
    leader: int
    """-1 if there is none."""
    leader_epoch: int
    partition_epoch: int
    adding: Ids | None = None
    removing: Ids | None = None
    unclean: bool | None = None
    """Version 0.1 wrote it: the only in-sync replica may have lost committed data."""
    cause: str | None = None
    last_isr: Ids | None = None
    wiped: Ids | None = None
    offline: Ids | None = None
    borrowed: Ids | None = None


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """What changed in a partition; None stands for what did not. Each change has its partition epoch.

    `adding` and `removing` are replicas on their way in and out. The other fields are as in PartitionImage.
    """

    topic_id: UUID
    partition: int
    partition_epoch: int
    leader: int | None = None
    leader_epoch: int | None = None
    isr: Ids | None = None
    replicas: Ids | None = None
    adding: Ids | None = None
    removing: Ids | None = None
    unclean: bool | None = None
    """Version 0.1 wrote it, see PartitionRecord. What it had in sync then is what `last_isr` is now."""
    cause: str | None = None
    last_isr: Ids | None = None
    wiped: Ids | None = None
    offline: Ids | None = None
    borrowed: Ids | None = None


@dataclass(frozen=True, slots=True)
class NewLeaderEpochsRecord:
    """Every partition that `leader` leads goes on under the next leader epoch (and partition epoch).

    It stands for one PartitionChangeRecord each. Every start of a broker needs these, and a thousand
    partitions would add a thousand records to the log each time.
    """

    leader: int


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One config of a topic or broker; without a value it goes back to its default."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """Ids below `next_producer_id` were handed out to brokers, this time to `broker_id`."""

    broker_id: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class LeaderChangeRecord:
    """The first entry of each epoch of the quorum: who leads it. Changes nothing in the image."""

    leader_id: int


@dataclass(frozen=True, slots=True)
class VotersRecord:
    """Who votes in the quorum from here on: nodes, and their data folders' identities in the same order."""

    node_ids: Ids
    storage_ids: Texts
    given_up: Ids | None = None


@dataclass(frozen=True, slots=True)
class BootstrappedRecord:
    """All that a new cluster begins with comes before this."""


MetadataRecord = (
    FeatureLevelRecord
    | ClusterRecord
    | RegisterBrokerRecord
    | UnregisterBrokerRecord
    | RetireStorageRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | ShutdownBrokerRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | NewLeaderEpochsRecord
    | ConfigRecord
    | ProducerIdsRecord
    | LeaderChangeRecord
    | VotersRecord
    | BootstrappedRecord
)


def _integers(value: list[object]) -> Ids:
    if not all(type(item) is int for item in value):
        raise ValueError("is not a list of integers")
    return tuple(value)  # type: ignore[arg-type]  # checked just now


def _texts(value: list[object]) -> Texts:
    if not all(type(item) is str for item in value):
        raise ValueError("is not a list of strings")
    return tuple(value)  # type: ignore[arg-type]  # checked just now


class _Form(NamedTuple):
    """How a field looks in JSON, and what is made of it; None leaves it as it is."""

    json_type: type
    convert: Callable[[Any], object] | None = None


_FORMS = {
    "int": _Form(int),
    "bool": _Form(bool),
    "str": _Form(str),
    "UUID": _Form(str, UUID),
    "Ids": _Form(list, _integers),
    "Texts": _Form(list, _texts),
}


@dataclass(frozen=True, slots=True)
class _Schema:
    name: str
    version: int
    record_type: type
    forms: dict[str, _Form]
    required: frozenset[str]


def _schema(record_type: type, version: int = 0) -> _Schema:
    fields = dataclasses.fields(record_type)
    return _Schema(
        record_type.__name__.removesuffix("Record"),
        version,
        record_type,
        {field.name: _FORMS[str(field.type).removesuffix(" | None")] for field in fields},
        frozenset(field.name for field in fields if field.default is dataclasses.MISSING),
    )


_SCHEMAS: tuple[_Schema, ...] = (
    _schema(FeatureLevelRecord),
    _schema(ClusterRecord),
    _schema(RegisterBrokerRecord),
    _schema(UnregisterBrokerRecord),
    _schema(RetireStorageRecord),
    _schema(FenceBrokerRecord),
    _schema(UnfenceBrokerRecord),
    _schema(ShutdownBrokerRecord),
    _schema(TopicRecord),
    _schema(RemoveTopicRecord),
    _schema(PartitionRecord),
    _schema(PartitionChangeRecord),
    _schema(NewLeaderEpochsRecord),
    _schema(ConfigRecord),
    _schema(ProducerIdsRecord),
    _schema(LeaderChangeRecord),
    _schema(VotersRecord),
    _schema(BootstrappedRecord),
)
_BY_TYPE = {schema.record_type: schema for schema in _SCHEMAS}
_BY_NAME = {schema.name: schema for schema in _SCHEMAS}
_read_json = json.JSONDecoder().decode


def encode(record: MetadataRecord) -> bytes:
    schema = _BY_TYPE[type(record)]
    content: dict[str, Any] = {"type": schema.name, "version": schema.version}
    for name in schema.forms:
        value = getattr(record, name)
        if value is not None:
            content[name] = str(value) if isinstance(value, UUID) else value
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def decode(value: bytes | None) -> MetadataRecord:
    try:
        content = _read_json(str(value or b"", "utf-8"))
    except (ValueError, RecursionError) as error:
        raise MetadataRecordError(f"not a metadata record: {error}") from None
    if not isinstance(content, dict):
        raise MetadataRecordError("not a metadata record: no JSON object")
    name, version = content.pop("type", None), content.pop("version", None)
    schema = _BY_NAME.get(name) if isinstance(name, str) else None
    if schema is None:
        raise MetadataRecordError(
            f"unknown metadata record type {name!r}; a newer Penstock may have written it"
        )
    if type(version) is not int or not 0 <= version <= schema.version:
        raise MetadataRecordError(
            f"metadata record {name} has version {version!r}; this Penstock knows up to {schema.version}"
        )
    if not schema.required <= content.keys():
        missing = ", ".join(sorted(schema.required - content.keys()))
        raise MetadataRecordError(f"metadata record {name} lacks {missing}")
    return _build(schema, content)


def _build(schema: _Schema, content: dict[str, Any]) -> MetadataRecord:
    forms = schema.forms
    for name, value in content.items():
        form = forms.get(name)
        if form is None:
            raise MetadataRecordError(f"metadata record {schema.name} has no field {name!r}")
        json_type, convert = form
        if type(value) is not json_type:
            raise MetadataRecordError(
                f"metadata record {schema.name}: {name} is not of type {json_type.__name__}"
            )
        if convert is not None:
            try:
                content[name] = convert(value)
            except ValueError as error:
                raise MetadataRecordError(f"metadata record {schema.name}: {name} {error}") from None
    record: MetadataRecord = schema.record_type(**content)
    return record
