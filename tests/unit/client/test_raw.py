"""The client's own requests, against the protocol as kio and the broker know it."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from penstock.client.kafka.raw.batch import Owner, encode_batch
from penstock.client.kafka.raw.fields import Fields, uvarint, varint
from penstock.client.kafka.raw.requests import (
    GROUP,
    NOBODY,
    READ_COMMITTED,
    Address,
    GroupOffset,
    Request,
    add_offsets,
    add_partitions,
    commit_offsets,
    delete_offsets,
    end_transaction,
    fetch,
    fetch_offsets,
    find_coordinator,
    init_producer_id,
    leaders_of,
    list_end,
    produce,
)
from penstock.client.pubsub.messages import Outgoing
from penstock.wire.batch import read_header
from penstock.wire.records import decode_records
from penstock.wire.shapes import lower, names_in

OWNER = Owner(77, 3)
PARTITIONS = [("t", 0), ("u", 2), ("t", 1)]


def read(request: Request[Any]) -> Any:
    """The body as kio reads it; nothing may be left."""
    schema = load_request_schema(request.api_key, request.version)
    body, size = entity_reader(schema)(request.body, 0)
    assert size == len(request.body)
    assert request.is_flexible == schema.__flexible__
    return body


def answer(request: Request[Any], body: dict[str, Any]) -> Any:
    """What the request makes of an answer that kio wrote."""
    schema = load_response_schema(request.api_key, request.version)
    stream = io.BytesIO()
    entity_writer(schema)(stream, lower(body, schema, names_in(schema)))
    return request.decode(Fields(stream.getvalue()))


def partitions_of(topics: Any) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def test_find_coordinator() -> None:
    request = find_coordinator("g", GROUP)
    body = read(request)
    assert (body.key, body.key_type) == ("g", GROUP)
    told = {"error_code": ErrorCode.none, "error_message": None, "node_id": 3, "host": "h", "port": 9092}
    assert answer(request, told) == (0, Address("h", 9092))


def test_an_answer_that_is_cut_off() -> None:
    request = find_coordinator("g", GROUP)
    with pytest.raises(ValueError, match="cut off"):
        request.decode(Fields(b"\0\0\0\0\0\0\0"))


def test_leaders() -> None:
    request = leaders_of("t")
    body = read(request)
    assert [topic.name for topic in body.topics] == ["t"]
    assert body.allow_auto_topic_creation is False
    told = {
        "brokers": [
            {"node_id": 1, "host": "a", "port": 1, "rack": None},
            {"node_id": 2, "host": "b", "port": 2},
        ],
        "cluster_id": "c",
        "controller_id": 1,
        "topics": [
            {
                "error_code": ErrorCode.none,
                "name": "t",
                "is_internal": False,
                "partitions": [
                    {
                        "error_code": ErrorCode.none,
                        "partition_index": index,
                        "leader_id": leader,
                        "leader_epoch": 5,
                        "replica_nodes": (1, 2),
                        "isr_nodes": (1,),
                        "offline_replicas": (),
                    }
                    for index, leader in ((0, 2), (1, -1))
                ],
            }
        ],
    }
    found = answer(request, told)
    assert found.addresses == {1: Address("a", 1), 2: Address("b", 2)}
    assert found.leaders == {0: 2, 1: -1}
    assert found.error == 0


def test_init_producer_id() -> None:
    request = init_producer_id("x", 20_000, NOBODY)
    body = read(request)
    assert (body.transactional_id, body.producer_id, body.producer_epoch) == ("x", -1, -1)
    assert body.transaction_timeout.total_seconds() == 20
    told = {"error_code": ErrorCode.producer_fenced, "producer_id": 77, "producer_epoch": 3}
    assert answer(request, told) == (90, OWNER)


def test_add_partitions() -> None:
    request = add_partitions("x", OWNER, PARTITIONS)
    body = read(request)
    topics = body.v3_and_below_topics
    assert sorted(partitions_of(topics)) == sorted(PARTITIONS)
    assert (body.v3_and_below_producer_id, body.v3_and_below_producer_epoch) == OWNER


def test_add_offsets() -> None:
    request = add_offsets("x", OWNER, "g")
    body = read(request)
    assert (body.transactional_id, body.group_id, body.producer_id, body.producer_epoch) == ("x", "g", *OWNER)
    assert answer(request, {"error_code": ErrorCode.concurrent_transactions}) == 51


def test_commit_offsets() -> None:
    wanted = {("t", 1): GroupOffset(5, "m"), ("u", 0): GroupOffset(6, None)}
    request = commit_offsets("x", OWNER, "g", wanted)
    body = read(request)
    assert (body.transactional_id, body.group_id, body.producer_id, body.producer_epoch) == ("x", "g", *OWNER)
    sent = {
        (topic.name, each.partition_index): (each.committed_offset, each.committed_metadata)
        for topic in body.topics
        for each in topic.partitions
    }
    assert sent == {("t", 1): (5, "m"), ("u", 0): (6, "")}
    told = [{"name": "t", "partitions": [{"partition_index": 1, "error_code": ErrorCode.not_coordinator}]}]
    assert answer(request, {"topics": told}) == {("t", 1): 16}


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_transaction(is_commit: bool) -> None:
    body = read(end_transaction("x", OWNER, is_commit=is_commit))
    assert (body.transactional_id, body.producer_id, body.producer_epoch) == ("x", *OWNER)
    assert body.committed is is_commit


def test_produce() -> None:
    messages = [Outgoing("t", b"one"), Outgoing("t", b"", b"key", (("h", b"1"), ("i", b"")))]
    request = produce("x", ("t", 4), encode_batch(messages, OWNER, 9, 1_700_000_000_000), 4_000)
    body = read(request)
    assert (body.transactional_id, body.acks, body.timeout.total_seconds()) == ("x", -1, 4)
    (topic,) = body.topic_data
    (partition,) = topic.partition_data
    assert (topic.name, partition.index) == ("t", 4)
    header = read_header(memoryview(partition.records), 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert header.is_transactional
    records = list(decode_records(partition.records))
    assert [(each.key, each.value) for each in records] == [(None, b"one"), (b"key", b"")]
    assert list(records[1].headers) == [("h", b"1"), ("i", b"")]
    told = {
        "responses": [
            {
                "name": "t",
                "partition_responses": [{"index": 4, "error_code": ErrorCode.none, "base_offset": 12}],
            }
        ]
    }
    assert answer(request, told) == (0, 12)


@pytest.mark.parametrize("partitions", [PARTITIONS, None])
def test_fetch_offsets(partitions: list[tuple[str, int]] | None) -> None:
    request = fetch_offsets("g", partitions)
    body = read(request)
    assert body.group_id == "g"
    assert body.require_stable is True
    if partitions is None:
        assert body.topics is None
    else:
        asked = [(topic.name, index) for topic in body.topics for index in topic.partition_indexes]
        assert sorted(asked) == sorted(partitions)
    one = {"partition_index": 1, "committed_offset": 5, "metadata": "m", "error_code": ErrorCode.none}
    told = {"topics": [{"name": "t", "partitions": [one]}], "error_code": ErrorCode.not_coordinator}
    assert answer(request, told) == (16, {("t", 1): (GroupOffset(5, "m"), 0)})


def test_delete_offsets() -> None:
    request = delete_offsets("g", PARTITIONS)
    body = read(request)
    asked = [(topic.name, each.partition_index) for topic in body.topics for each in topic.partitions]
    assert sorted(asked) == sorted(PARTITIONS)
    one = {"partition_index": 1, "error_code": ErrorCode.group_subscribed_to_topic}
    told = {"error_code": ErrorCode.none, "topics": [{"name": "t", "partitions": [one]}]}
    assert answer(request, told) == (0, {("t", 1): 86})


def test_list_end() -> None:
    request = list_end(("t", 1), READ_COMMITTED)
    body = read(request)
    (topic,) = body.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index, body.isolation_level) == ("t", 1, READ_COMMITTED)
    assert (partition.timestamp, partition.current_leader_epoch, body.replica_id) == (-1, -1, -1)
    one = {"partition_index": 1, "error_code": ErrorCode.none, "offset": 99}
    assert answer(request, {"topics": [{"name": "t", "partitions": [one]}]}) == (0, 99)


@pytest.mark.parametrize("aborted", [[(7, 3), (9, 40)], None])
def test_fetch(aborted: list[tuple[int, int]] | None) -> None:
    request = fetch(("t", 1), 42, READ_COMMITTED)
    body = read(request)
    (topic,) = body.topics
    (partition,) = topic.partitions
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("t", 1, 42)
    assert (body.isolation_level, body.replica_id, body.max_wait) == (READ_COMMITTED, -1, timedelta(0))
    entries = [{"producer_id": producer, "first_offset": first} for producer, first in aborted or ()]
    one = {
        "partition_index": 1,
        "error_code": ErrorCode.none,
        "high_watermark": 99,
        "last_stable_offset": 98,
        "aborted_transactions": None if aborted is None else entries,
        "records": None if aborted is None else b"some bytes",
    }
    found = answer(request, {"responses": [{"topic": "t", "partitions": [one]}]})
    assert found == (0, aborted or [], b"" if aborted is None else b"some bytes")


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 300, 2**31, -(2**31)])
def test_varints(value: int) -> None:
    assert Fields(varint(value)).uvarint() == (value << 1 if value >= 0 else (-value << 1) - 1)
    assert Fields(uvarint(abs(value))).uvarint() == abs(value)
