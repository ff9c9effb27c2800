"""The records of `__consumer_offsets`, byte for byte as Kafka writes them.

The fields are those of penstock.wire.fields. Every key and every value begins with version(2)::

    key 0, 1  offset commit    group(string) topic(string) partition(4)
    key 2     group metadata   group(string)

    offset commit value
        v0  offset(8) metadata(string) timestamp(8)
        v1  offset(8) metadata(string) commit_timestamp(8) expire_timestamp(8)
        v2  offset(8) metadata(string) commit_timestamp(8)
        v3  offset(8) leader_epoch(4) metadata(string) commit_timestamp(8)

    group metadata value
        protocol_type(string) generation(4) protocol(string?) leader(string?) [v2: state_timestamp(8)]
        members_count(4) * { member_id(string) [v3: group_instance_id(string?)] client_id(string)
        client_host(string) [v1: rebalance_timeout(4)] session_timeout(4) subscription(bytes)
        assignment(bytes) }

Written are key 1 and 2, offset value v3 (v1 if the commit asked for its own retention) and group value v3;
all of the above are read. A key with a null value is a tombstone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from penstock.groups.offsets import CommittedOffset
from penstock.wire.fields import FieldReader, RecordError, int16, string, with_length


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MemberValue, ...]


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return int16(1) + string(group_id) + string(topic) + struct.pack(">i", partition)


def encode_group_key(group_id: str) -> bytes:
    return int16(2) + string(group_id)


CONFIRMATION: Final = (encode_offset_key("", "", -1), None)
"""See `CoordinatorShard.confirm`."""


def encode_offset_value(value: CommittedOffset) -> bytes:
    if value.expire_timestamp_ms is not None:
        timestamps = struct.pack(">qq", value.commit_timestamp_ms, value.expire_timestamp_ms)
        return struct.pack(">hq", 1, value.offset) + string(value.metadata) + timestamps
    head = struct.pack(">hqi", 3, value.offset, value.leader_epoch)
    return head + string(value.metadata) + struct.pack(">q", value.commit_timestamp_ms)


def encode_group_value(value: GroupMetadataValue) -> bytes:
    out = [
        int16(3), string(value.protocol_type), struct.pack(">i", value.generation_id),
        string(value.protocol_name), string(value.leader),
        struct.pack(">qi", value.state_timestamp_ms, len(value.members)),
    ]  # fmt: skip
    for member in value.members:
        out += [
            string(member.member_id), string(member.group_instance_id), string(member.client_id),
            string(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            with_length(member.subscription), with_length(member.assignment),
        ]  # fmt: skip
    return b"".join(out)


def decode_key(data: bytes) -> OffsetCommitKey | GroupMetadataKey:
    reader = FieldReader(data)
    version = reader.int16()
    key: OffsetCommitKey | GroupMetadataKey
    if version in (0, 1):
        key = OffsetCommitKey(reader.string(), reader.string(), reader.int32())
    elif version == 2:
        key = GroupMetadataKey(reader.string())
    else:
        raise RecordError(f"unknown key version {version}")
    reader.end()
    return key


def decode_offset_value(data: bytes) -> CommittedOffset:
    reader = FieldReader(data)
    version = reader.int16()
    if not 0 <= version <= 3:
        raise RecordError(f"unknown offset value version {version}")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    reader.end()
    return CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=None if expire_timestamp_ms < 0 else expire_timestamp_ms,
    )


def decode_group_value(data: bytes) -> GroupMetadataValue:
    reader = FieldReader(data)
    version = reader.int16()
    if not 0 <= version <= 3:
        raise RecordError(f"unknown group value version {version}")
    protocol_type = reader.string()
    generation_id = reader.int32()
    protocol_name, leader = reader.maybe_string(), reader.maybe_string()
    state_timestamp_ms = reader.int64() if version >= 2 else -1
    members = tuple(_member(reader, version) for _ in range(reader.int32()))
    reader.end()
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation_id=generation_id,
        protocol_name=protocol_name,
        leader=leader,
        state_timestamp_ms=state_timestamp_ms,
        members=members,
    )


def _member(reader: FieldReader, version: int) -> MemberValue:
    member_id = reader.string()
    group_instance_id = reader.maybe_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    return MemberValue(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=reader.bytes(),
        assignment=reader.bytes(),
    )
