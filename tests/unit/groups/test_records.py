from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.groups import records
from penstock.groups.offsets import CommittedOffset
from penstock.groups.records import GroupMetadataKey, GroupMetadataValue, MemberValue, OffsetCommitKey
from penstock.wire.fields import STRING_BYTES_MAX, RecordError, fits

strings = st.text(max_size=40)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
blobs = st.binary(max_size=60)

offsets = st.builds(
    CommittedOffset,
    offset=int64,
    leader_epoch=int32,
    metadata=strings,
    commit_timestamp_ms=int64,
    expire_timestamp_ms=st.none(),
)
members = st.builds(
    MemberValue,
    member_id=strings,
    group_instance_id=st.none() | strings,
    client_id=strings,
    client_host=strings,
    rebalance_timeout_ms=st.integers(0, (1 << 31) - 1),
    session_timeout_ms=int32,
    subscription=blobs,
    assignment=blobs,
)
groups = st.builds(
    GroupMetadataValue,
    protocol_type=strings,
    generation_id=int32,
    protocol_name=st.none() | strings,
    leader=st.none() | strings,
    state_timestamp_ms=int64,
    members=st.lists(members, max_size=4).map(tuple),
)


@given(strings, strings, int32)
def test_offset_keys_come_back(group_id: str, topic: str, partition: int) -> None:
    key = records.encode_offset_key(group_id, topic, partition)
    assert records.decode_key(key) == OffsetCommitKey(group_id, topic, partition)


@given(strings)
def test_group_keys_come_back(group_id: str) -> None:
    assert records.decode_key(records.encode_group_key(group_id)) == GroupMetadataKey(group_id)


@given(offsets)
def test_offsets_come_back(value: CommittedOffset) -> None:
    assert records.decode_offset_value(records.encode_offset_value(value)) == value


def test_an_offset_with_its_own_retention_comes_back() -> None:
    value = CommittedOffset(offset=5, metadata="m", commit_timestamp_ms=7, expire_timestamp_ms=9)
    encoded = records.encode_offset_value(value)
    assert encoded[:2] == b"\x00\x01"
    assert records.decode_offset_value(encoded) == value


@given(groups)
def test_groups_come_back(value: GroupMetadataValue) -> None:
    assert records.decode_group_value(records.encode_group_value(value)) == value


@given(groups, st.data())
def test_a_group_cut_short_or_continued_is_refused(value: GroupMetadataValue, data: st.DataObject) -> None:
    encoded = records.encode_group_value(value)
    end = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(RecordError):
        records.decode_group_value(encoded[:end])
    with pytest.raises(RecordError):
        records.decode_group_value(encoded + b"\x00")


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_refused(data: bytes) -> None:
    for decode in (records.decode_key, records.decode_offset_value, records.decode_group_value):
        with contextlib.suppress(RecordError):
            decode(data)


def test_the_bytes_are_those_of_kafka() -> None:
    assert records.encode_offset_key("g", "tt", 3) == b"\x00\x01\x00\x01g\x00\x02tt\x00\x00\x00\x03"
    assert records.encode_group_key("g") == b"\x00\x02\x00\x01g"
    value = CommittedOffset(offset=258, leader_epoch=4, metadata="m", commit_timestamp_ms=5)
    assert records.encode_offset_value(value) == (
        b"\x00\x03" + (258).to_bytes(8) + (4).to_bytes(4) + b"\x00\x01m" + (5).to_bytes(8)
    )
    member = MemberValue(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1,
        session_timeout_ms=2,
        subscription=b"s",
        assignment=b"",
    )
    group = GroupMetadataValue(
        protocol_type="consumer",
        generation_id=9,
        protocol_name="range",
        leader="m",
        state_timestamp_ms=3,
        members=(member,),
    )
    assert records.encode_group_value(group) == (
        b"\x00\x03\x00\x08consumer\x00\x00\x00\x09\x00\x05range\x00\x01m" + (3).to_bytes(8)
        + b"\x00\x00\x00\x01" + b"\x00\x01m\xff\xff\x00\x01c\x00\x01h"
        + (1).to_bytes(4) + (2).to_bytes(4) + b"\x00\x00\x00\x01s" + b"\x00\x00\x00\x00"
    )  # fmt: skip


def test_older_versions_are_read() -> None:
    v0 = b"\x00\x00" + (7).to_bytes(8) + b"\x00\x01m" + (5).to_bytes(8)
    assert records.decode_offset_value(v0) == CommittedOffset(offset=7, metadata="m", commit_timestamp_ms=5)
    v2 = b"\x00\x02" + v0[2:]
    assert records.decode_offset_value(v2) == CommittedOffset(offset=7, metadata="m", commit_timestamp_ms=5)
    group_v0 = (
        b"\x00\x00\x00\x01t" + (1).to_bytes(4) + b"\xff\xff\xff\xff" + (1).to_bytes(4)
        + b"\x00\x01m\x00\x01c\x00\x01h" + (2).to_bytes(4) + bytes(4) + bytes(4)
    )  # fmt: skip
    decoded = records.decode_group_value(group_v0)
    assert decoded.members[0].rebalance_timeout_ms == 2
    assert decoded.state_timestamp_ms == -1


@pytest.mark.parametrize("data", [b"\x00\x09\x00\x00", b"\xff\xff\x00\x00"])
def test_unknown_versions_are_refused(data: bytes) -> None:
    for decode in (records.decode_key, records.decode_offset_value, records.decode_group_value):
        with pytest.raises(RecordError, match="version"):
            decode(data)


def test_strings_that_do_not_fit() -> None:
    assert fits("a" * STRING_BYTES_MAX)
    assert not fits("a" * (STRING_BYTES_MAX + 1))
    assert not fits("ä" * (STRING_BYTES_MAX - 1))
