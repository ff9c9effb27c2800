"""The hand-written answer to a replica's fetch, read by kio."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.fetch.v17.response import FetchResponse
from kio.serial import entity_reader

from penstock.types import ErrorCode
from penstock.wire.replica_fetch import ReplicaPartition, write_response

READ = entity_reader(FetchResponse)
TOPIC, OTHER = UUID(int=7), UUID(int=8)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)


def read(buffers: list[Any]) -> FetchResponse:
    data = b"".join(map(bytes, buffers))
    response, size = READ(data, 0)
    assert size == len(data), "bytes are left over"
    return response


def test_nothing() -> None:
    response = read(write_response([]))
    assert (response.responses, response.error_code) == ((), ErrorCode.none)


def test_an_error_of_the_whole_request() -> None:
    assert read(write_response([], ErrorCode.inconsistent_cluster_id)).error_code is (
        ErrorCode.inconsistent_cluster_id
    )


def test_records_are_not_copied() -> None:
    records = memoryview(bytearray(b"x" * 300))
    buffers = write_response([(TOPIC, [ReplicaPartition(0, 0, 5, 1, records=records)])])
    assert any(buffer is records for buffer in buffers)
    (found,) = read(buffers).responses[0].partitions
    assert bytes(found.records or b"") == b"x" * 300


def test_several_topics_and_partitions_in_order() -> None:
    answer = [
        (TOPIC, [ReplicaPartition(3, 0, 10, 2, records=b"abc"), ReplicaPartition(1, 0, 4, 0)]),
        (
            OTHER,
            [
                ReplicaPartition(0, ErrorCode.fenced_leader_epoch, 9, 1),
                ReplicaPartition(2, 0, 7, 1, diverging=(4, 6)),
                ReplicaPartition(5, 0, 1, 0, records=b"z"),
            ],
        ),
    ]
    response = read(write_response(answer))
    assert [topic.topic_id for topic in response.responses] == [TOPIC, OTHER]
    first, second = (topic.partitions for topic in response.responses)
    assert [each.partition_index for each in first + second] == [3, 1, 0, 2, 5]
    assert [bytes(each.records or b"") for each in first + second] == [b"abc", b"", b"", b"", b"z"]
    assert [each.high_watermark for each in first + second] == [10, 4, 9, 7, 1]
    assert [each.log_start_offset for each in first + second] == [2, 0, 1, 1, 0]
    assert second[0].error_code is ErrorCode.fenced_leader_epoch
    assert (second[1].diverging_epoch.epoch, second[1].diverging_epoch.end_offset) == (4, 6)
    assert second[2].diverging_epoch.end_offset == -1, "none"


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 70_000])
def test_lengths_of_records(size: int) -> None:
    (topic,) = read(write_response([(TOPIC, [ReplicaPartition(0, 0, 1, 0, records=b"r" * size)])])).responses
    assert len(topic.partitions[0].records or b"") == size


PARTITIONS = st.builds(
    ReplicaPartition,
    INT32,
    st.sampled_from([ErrorCode.none, ErrorCode.unknown_topic_id, ErrorCode.offset_out_of_range]),
    INT64,
    INT64,
    st.none() | st.tuples(INT32, st.integers(0, 2**63 - 1)),
    st.binary(max_size=300),
)


@given(st.lists(st.tuples(st.uuids(), st.lists(PARTITIONS, max_size=4)), max_size=4))
def test_whatever_is_written_is_read(topics: list[tuple[UUID, list[ReplicaPartition]]]) -> None:
    response = read(write_response(topics))
    found = [
        (
            topic.topic_id,
            [
                ReplicaPartition(
                    each.partition_index,
                    each.error_code,
                    each.high_watermark,
                    each.log_start_offset,
                    None
                    if each.diverging_epoch.end_offset < 0
                    else (each.diverging_epoch.epoch, each.diverging_epoch.end_offset),
                    bytes(each.records or b""),
                )
                for each in topic.partitions
            ],
        )
        for topic in response.responses
    ]
    assert found == topics
