"""What reader and sequenced writer ask brokers, in the versions that it knows: bodies as plain mappings.

The lower ends of the ranges are those of Kafka 2.3, the upper ends the last that name topics by name and are
served by Penstock and by Apache Kafka 4. What a broker serves it tells in its answer to ApiVersions (0),
which every broker knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from penstock.gateway.kafka.errors import KafkaUnavailableError

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ALL_IN_SYNC: Final = -1
EARLIEST: Final = -2
LATEST: Final = -1
NO_EPOCH: Final = -1

Served = Mapping[int, tuple[int, int]]
"""API key -> lowest and highest version."""


class Api(NamedTuple):
    name: str
    key: int
    version_min: int
    version_max: int


API_VERSIONS: Final = Api("ApiVersions", 18, 0, 0)
FETCH: Final = Api("Fetch", 1, 11, 12)
LIST_OFFSETS: Final = Api("ListOffsets", 2, 4, 7)
METADATA: Final = Api("Metadata", 3, 7, 12)
PRODUCE: Final = Api("Produce", 0, 7, 9)
INIT_PRODUCER_ID: Final = Api("InitProducerId", 22, 1, 4)
OFFSET_FOR_LEADER_EPOCH: Final = Api("OffsetForLeaderEpoch", 23, 3, 4)
DESCRIBE_PRODUCERS: Final = Api("DescribeProducers", 61, 0, 0)


class Question(Protocol):
    @property
    def api(self) -> Api: ...

    def body(self, version: int) -> Mapping[str, Any]: ...


def choose_version(api: Api, served: Served, broker: str) -> int:
    """The newest version that both sides know."""
    lowest, highest = served.get(api.key, (0, -1))
    version = min(api.version_max, highest)
    if version < max(api.version_min, lowest):
        serves = f"versions {lowest} to {highest}" if highest >= 0 else "none"
        wanted = f"{api.version_min} to {api.version_max}"
        raise KafkaUnavailableError(f"{broker} serves {serves} of {api.name}; {wanted} are needed")
    return version


def served_versions(answer: Any) -> Served:
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


class VersionsQuestion:
    api: ClassVar[Api] = API_VERSIONS

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - there is but one
        return {}


@dataclass(frozen=True, slots=True)
class MetadataQuestion:
    api: ClassVar[Api] = METADATA
    topics: Sequence[str] | None
    """None stands for all."""

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - it is the same in all
        topics = None if self.topics is None else [{"name": name} for name in self.topics]
        # A reader's curiosity creates no topics.
        return {"topics": topics, "allow_auto_topic_creation": False}


@dataclass(frozen=True, slots=True)
class OffsetQuestion:
    api: ClassVar[Api] = LIST_OFFSETS
    topic: str
    partition: int
    leader_epoch: int
    timestamp: int
    isolation_level: int = READ_COMMITTED

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - it is the same in all
        partition = {
            "partition_index": self.partition,
            "current_leader_epoch": self.leader_epoch,
            "timestamp": self.timestamp,
        }
        return {
            "replica_id": -1,
            "isolation_level": self.isolation_level,
            "topics": [{"name": self.topic, "partitions": [partition]}],
        }


@dataclass(frozen=True, slots=True)
class FetchQuestion:
    api: ClassVar[Api] = FETCH
    topic: str
    partition: int
    leader_epoch: int
    offset: int
    bytes_max: int
    wait_ms: int
    rack: str

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - defaults are all that differs
        partition = {
            "partition": self.partition,
            "current_leader_epoch": self.leader_epoch,
            "fetch_offset": self.offset,
            "partition_max_bytes": self.bytes_max,
        }
        return {
            "max_wait": timedelta(milliseconds=self.wait_ms),
            "min_bytes": 1,
            "max_bytes": self.bytes_max,
            "isolation_level": READ_COMMITTED,
            "topics": [{"topic": self.topic, "partitions": [partition]}],
            "rack_id": self.rack,
        }


@dataclass(frozen=True, slots=True)
class ProduceQuestion:
    api: ClassVar[Api] = PRODUCE
    topic: str
    partition: int
    batch: bytes
    timeout_ms: int

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - it is the same in all
        partition = {"index": self.partition, "records": self.batch}
        return {
            "acks": ALL_IN_SYNC,
            "timeout": timedelta(milliseconds=self.timeout_ms),
            "topic_data": [{"name": self.topic, "partition_data": [partition]}],
        }


class ProducerIdQuestion:
    api: ClassVar[Api] = INIT_PRODUCER_ID

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - it is the same in all
        return {"transactional_id": None, "transaction_timeout": timedelta(milliseconds=2**31 - 1)}


@dataclass(frozen=True, slots=True)
class ProducersQuestion:
    api: ClassVar[Api] = DESCRIBE_PRODUCERS
    topic: str
    partition: int

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - there is but one
        return {"topics": [{"name": self.topic, "partition_indexes": [self.partition]}]}


@dataclass(frozen=True, slots=True)
class EndQuestion:
    """Where the leader's log ends, committed or not: where its own epoch ends by now."""

    api: ClassVar[Api] = OFFSET_FOR_LEADER_EPOCH
    topic: str
    partition: int
    leader_epoch: int

    def body(self, version: int) -> Mapping[str, Any]:  # noqa: ARG002 - it is the same in all
        partition = {
            "partition": self.partition,
            "current_leader_epoch": self.leader_epoch,
            "leader_epoch": self.leader_epoch,
        }
        return {"replica_id": -1, "topics": [{"topic": self.topic, "partitions": [partition]}]}
