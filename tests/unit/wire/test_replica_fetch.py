"""The hand-written fetch of a replica and its answer, read by kio."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.fetch.v17.response import FetchResponse
from kio.serial import entity_reader

from penstock.types import ErrorCode
from penstock.wire.replica_fetch import AskedPartition, ReplicaPartition, write_request, write_response

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
    assert (response.responses, response.error_code, response.session_id) == ((), ErrorCode.none, 0)


def test_the_session_of_an_answer() -> None:
    assert read(write_response([], session_id=2**31 - 1)).session_id == 2**31 - 1


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


ASKED = st.builds(AskedPartition, INT32, st.integers(-1, 2**31 - 1), INT64, st.integers(-1, 9), INT64, INT32)


@given(
    st.dictionaries(st.uuids().filter(lambda each: each.int), st.lists(ASKED, max_size=3), max_size=3),
    st.dictionaries(st.uuids().filter(lambda each: each.int), st.lists(INT32, max_size=200), max_size=2),
    st.tuples(INT32, st.integers(-1, 2**31 - 1), st.integers(0, 2**31 - 1), INT32),
    st.text(max_size=200),
    st.tuples(st.integers(-1, 2**31 - 1), INT64),
)
def test_whatever_is_asked_is_read(
    topics: dict[UUID, list[AskedPartition]],
    forgotten: dict[UUID, list[int]],
    numbers: tuple[int, int, int, int],
    cluster_id: str,
    replica: tuple[int, int],
) -> None:
    session_id, session_epoch, max_wait_ms, max_bytes = numbers
    data = write_request(
        topics,
        forgotten,
        session_id=session_id,
        session_epoch=session_epoch,
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        cluster_id=cluster_id,
        replica_id=replica[0],
        replica_epoch=replica[1],
    )
    request, size = entity_reader(FetchRequest)(data, 0)
    assert size == len(data), "bytes are left over"
    assert {
        topic.topic_id: [
            AskedPartition(*(getattr(each, name) for name in AskedPartition._fields))
            for each in topic.partitions
        ]
        for topic in request.topics
    } == topics
    assert {topic.topic_id: list(topic.partitions) for topic in request.forgotten_topics_data} == forgotten
    assert (request.session_id, request.session_epoch, request.max_bytes) == (
        session_id,
        session_epoch,
        max_bytes,
    )
    assert (request.max_wait / timedelta(milliseconds=1), request.min_bytes) == (max_wait_ms, 1)
    assert (request.cluster_id, request.rack_id, request.isolation_level) == (cluster_id, "", 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == replica
