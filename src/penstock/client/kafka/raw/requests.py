"""Requests and what their answers say. Versions are those that Kafka has from 2.7 on, up to 4."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.client.kafka.raw.batch import Owner
from penstock.client.kafka.raw.fields import (
    Fields,
    array,
    compact_array,
    compact_string,
    data_bytes,
    int8,
    int16,
    int32,
    int64,
    string,
)
from penstock.client.pubsub.messages import Partition

T = TypeVar("T")

GROUP: Final = 0
TRANSACTION: Final = 1
NOBODY: Final = Owner(-1, -1)
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
LATEST: Final = -1
ALL_IN_SYNC: Final = -1
PLAIN_CLIENT: Final = -1
NO_LEADER_EPOCH: Final = -1
FETCH_BYTES_AIM: Final = 1024 * 1024
NO_TAGS: Final = b"\0"


class Address(NamedTuple):
    host: str
    port: int


class GroupOffset(NamedTuple):
    offset: int
    metadata: str | None


class Request(NamedTuple, Generic[T]):
    api_key: int
    version: int
    body: bytes
    decode: Callable[[Fields], T]
    is_flexible: bool = False


class Found(NamedTuple):
    """An error code, and what was found if it is 0."""

    error: int
    address: Address


class Leaders(NamedTuple):
    addresses: dict[int, Address]
    leaders: dict[int, int]
    """By partition, the node that leads it; -1 for none."""
    error: int


class FetchAnswer(NamedTuple):
    error: int
    aborted: list[tuple[int, int]]
    """Producer and first offset of each aborted transaction that touches the records."""
    records: bytes


Codes = dict[Partition, int]


def find_coordinator(key: str, kind: int) -> Request[Found]:
    def decode(fields: Fields) -> Found:
        fields.int32()
        error = fields.int16()
        fields.string()
        fields.int32()
        return Found(error, Address(fields.string() or "", fields.int32()))

    return Request(10, 1, string(key) + int8(kind), decode)


def leaders_of(topic: str) -> Request[Leaders]:
    """Metadata of one topic, which is not created by asking."""

    def node(fields: Fields) -> tuple[int, Address]:
        found = fields.int32(), Address(fields.string() or "", fields.int32())
        fields.string()
        return found

    def partition(fields: Fields) -> tuple[int, int]:
        fields.int16()
        index, leader = fields.int32(), fields.int32()
        fields.int32()
        for _ in range(3):  # replicas, in sync, offline
            fields.array(fields.int32)
        return index, leader

    def decode(fields: Fields) -> Leaders:
        fields.int32()
        addresses = dict(fields.array(lambda: node(fields)))
        fields.string()
        fields.int32()
        fields.int32()  # one topic
        error = fields.int16()
        fields.string()
        fields.int8()
        return Leaders(addresses, dict(fields.array(lambda: partition(fields))), error)

    return Request(3, 7, array([string(topic)]) + int8(0), decode)


def init_producer_id(transactional_id: str, timeout_ms: int, owner: Owner) -> Request[tuple[int, Owner]]:
    def decode(fields: Fields) -> tuple[int, Owner]:
        fields.int32()
        return fields.int16(), Owner(fields.int64(), fields.int16())

    body = compact_string(transactional_id) + int32(timeout_ms) + int64(owner.producer_id)
    return Request(22, 4, body + int16(owner.epoch) + NO_TAGS, decode, is_flexible=True)


def add_partitions(transactional_id: str, owner: Owner, partitions: Iterable[Partition]) -> Request[Codes]:
    body = string(transactional_id) + _owner(owner)
    body += _by_topic({partition: int32(partition[1]) for partition in partitions})
    return Request(24, 2, body, _codes)


def add_offsets(transactional_id: str, owner: Owner, group: str) -> Request[int]:
    return Request(25, 2, string(transactional_id) + _owner(owner) + string(group), _code)


def commit_offsets(
    transactional_id: str, owner: Owner, group: str, offsets: Mapping[Partition, GroupOffset]
) -> Request[Codes]:
    def item(partition: Partition, each: GroupOffset) -> bytes:
        head = int32(partition[1]) + int64(each.offset) + int32(NO_LEADER_EPOCH)
        return head + string(each.metadata or "")

    body = string(transactional_id) + string(group) + _owner(owner)
    body += _by_topic({partition: item(partition, each) for partition, each in offsets.items()})
    return Request(28, 2, body, _codes)


def end_transaction(transactional_id: str, owner: Owner, *, is_commit: bool) -> Request[int]:
    return Request(26, 2, string(transactional_id) + _owner(owner) + int8(is_commit), _code)


def produce(
    transactional_id: str, partition: Partition, batch: bytes, timeout_ms: int
) -> Request[tuple[int, int]]:
    """The answer: an error code, and the offset of the first message."""

    def decode(fields: Fields) -> tuple[int, int]:
        fields.int32()  # one topic
        fields.string()
        fields.int32()  # one partition
        fields.int32()
        return fields.int16(), fields.int64()

    body = string(transactional_id) + int16(ALL_IN_SYNC) + int32(timeout_ms)
    body += _by_topic({partition: int32(partition[1]) + data_bytes(batch)})
    return Request(0, 7, body, decode)


def fetch_offsets(
    group: str, partitions: Iterable[Partition] | None, *, stable: bool = True
) -> Request[tuple[int, dict[Partition, tuple[GroupOffset, int]]]]:
    """The answer: an error code for all, and one for each. `stable` refuses what a transaction may change."""

    def one(fields: Fields) -> tuple[int, GroupOffset, int]:
        index, offset = fields.int32(), fields.int64()
        fields.int32()
        found = GroupOffset(offset, fields.compact_string())
        error = fields.int16()
        fields.tags()
        return index, found, error

    def topic(fields: Fields) -> tuple[str, list[tuple[int, GroupOffset, int]]]:
        found = fields.compact_string() or "", fields.compact_array(lambda: one(fields))
        fields.tags()
        return found

    def decode(fields: Fields) -> tuple[int, dict[Partition, tuple[GroupOffset, int]]]:
        fields.int32()
        topics = fields.compact_array(lambda: topic(fields))
        found = {(name, index): (each, error) for name, every in topics for index, each, error in every}
        return fields.int16(), found

    body = compact_string(group) + _compact_topics(partitions) + int8(stable) + NO_TAGS
    return Request(9, 7, body, decode, is_flexible=True)


def delete_offsets(group: str, partitions: Iterable[Partition]) -> Request[tuple[int, Codes]]:
    def decode(fields: Fields) -> tuple[int, Codes]:
        error = fields.int16()
        fields.int32()
        return error, _partition_codes(fields)

    body = string(group) + _by_topic({partition: int32(partition[1]) for partition in partitions})
    return Request(47, 0, body, decode)


def list_end(partition: Partition, isolation: int) -> Request[tuple[int, int]]:
    """The answer: an error code, and the high watermark or the last stable offset."""

    def decode(fields: Fields) -> tuple[int, int]:
        for _ in range(2):  # how long it was held back, one topic
            fields.int32()
        fields.string()
        for _ in range(2):  # one partition, its index
            fields.int32()
        error = fields.int16()
        fields.int64()
        return error, fields.int64()

    one = int32(partition[1]) + int32(NO_LEADER_EPOCH) + int64(LATEST)
    body = int32(PLAIN_CLIENT) + int8(isolation) + _by_topic({partition: one})
    return Request(2, 5, body, decode)


def fetch(partition: Partition, offset: int, isolation: int) -> Request[FetchAnswer]:
    """What is there now: at least the batch at `offset`, if there is one."""

    def decode(fields: Fields) -> FetchAnswer:
        for _ in range(2):  # how long it was held back, one topic
            fields.int32()
        fields.string()
        for _ in range(2):  # one partition, its index
            fields.int32()
        error = fields.int16()
        for _ in range(2):  # high watermark, last stable offset
            fields.int64()
        aborted = fields.array(lambda: (fields.int64(), fields.int64()))
        return FetchAnswer(error, aborted, fields.data_bytes())

    one = int32(partition[1]) + int64(offset) + int32(FETCH_BYTES_AIM)
    # No waiting, and no least size.
    body = int32(PLAIN_CLIENT) + int32(0) + int32(0) + int32(FETCH_BYTES_AIM) + int8(isolation)
    return Request(1, 4, body + _by_topic({partition: one}), decode)


def _owner(owner: Owner) -> bytes:
    return int64(owner.producer_id) + int16(owner.epoch)


def _by_topic(items: Mapping[Partition, bytes]) -> bytes:
    topics: dict[str, list[bytes]] = defaultdict(list)
    for (topic, _), item in items.items():
        topics[topic].append(item)
    return array(string(topic) + array(every) for topic, every in topics.items())


def _compact_topics(partitions: Iterable[Partition] | None) -> bytes:
    """All that there are, for None."""
    if partitions is None:
        return NO_TAGS
    topics: dict[str, list[bytes]] = defaultdict(list)
    for topic, index in partitions:
        topics[topic].append(int32(index))
    return compact_array(
        compact_string(topic) + compact_array(every) + NO_TAGS for topic, every in topics.items()
    )


def _code(fields: Fields) -> int:
    fields.int32()
    return fields.int16()


def _codes(fields: Fields) -> Codes:
    fields.int32()
    return _partition_codes(fields)


def _partition_codes(fields: Fields) -> Codes:
    def topic() -> tuple[str, list[tuple[int, int]]]:
        return fields.string() or "", fields.array(lambda: (fields.int32(), fields.int16()))

    return {(name, index): code for name, every in fields.array(topic) for index, code in every}
