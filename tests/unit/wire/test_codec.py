"""Requests and responses against kio as the oracle, and against garbage."""

from __future__ import annotations

import datetime
import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from penstock.broker.handlers import load_handlers
from penstock.wire import fetch, produce
from penstock.wire.codec import load_codec, read_request_header
from penstock.wire.primitives import DecodeError, read_unsigned_varint, unsigned_varint
from penstock.wire.registry import Handler, Registry, api
from penstock.wire.shapes import fields_of, lift, lower, names_in


def minimal(entity_type: type) -> Any:
    return lower({}, entity_type, frozenset())


def encoded(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def request_frame(key: int, version: int, body: bytes, *, flexible: bool, client_id: bytes = b"me") -> bytes:
    tags = b"\x00" if flexible else b""
    return struct.pack(">hhih", key, version, 42, len(client_id)) + client_id + tags + body


SERVED = [(handler, version) for handler in load_handlers() for version in handler.versions]


@pytest.mark.parametrize(("handler", "version"), SERVED, ids=lambda value: str(getattr(value, "key", value)))
def test_every_served_version_reads_and_lifts_a_request(handler: Handler, version: int) -> None:
    request_type = load_request_schema(handler.key, version)
    frame = request_frame(
        handler.key, version, encoded(minimal(request_type)), flexible=request_type.__flexible__
    )
    header = read_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
        handler.key,
        version,
        42,
        "me",
    )
    _, request = handler.read_request(handler.codec(version), frame, header)
    if handler.decoder is None:
        newest = load_request_schema(handler.key, handler.versions[-1])
        for field in fields_of(newest):
            assert hasattr(request, field.name)


@pytest.mark.parametrize(("handler", "version"), SERVED, ids=lambda value: str(getattr(value, "key", value)))
def test_every_served_version_writes_a_response_that_kio_reads(handler: Handler, version: int) -> None:
    response = handler.codec(version).write_response(42, {})
    length, correlation_id = struct.unpack_from(">ii", response)
    assert (length, correlation_id) == (len(response) - 4, 42)
    response_type = load_response_schema(handler.key, version)
    start = 9 if response_type.__flexible__ and handler.key != 18 else 8
    entity, size = entity_reader(response_type)(response, start)
    assert start + size == len(response)
    assert entity == minimal(response_type)


def test_a_misspelt_field_is_a_mistake_in_every_version() -> None:
    with pytest.raises(KeyError, match="cluster_idd"):
        load_codec(3, 12, range(13)).write_response(1, {"cluster_idd": "x"})


def test_lifting_fills_what_an_old_version_did_not_have() -> None:
    old = load_request_schema(1, 4)
    new = load_request_schema(1, 12)
    topic = next(field.entity for field in fields_of(old) if field.name == "topics")
    partition = next(field.entity for field in fields_of(topic) if field.name == "partitions")
    known = names_in(old)
    body = {"min_bytes": 5, "topics": [{"topic": "t", "partitions": [{"partition": 3, "fetch_offset": 9}]}]}
    lifted = lift(lower(body, old, known), new)
    assert partition is not None
    assert isinstance(lifted, new)
    assert lifted.topics[0].partitions[0].fetch_offset == 9
    assert lifted.topics[0].partitions[0].current_leader_epoch == -1
    assert (lifted.min_bytes, lifted.rack_id, lifted.session_epoch) == (5, "", -1)


@pytest.mark.parametrize("version", [5, 9])
def test_an_array_that_may_not_be_null(version: int) -> None:
    """JoinGroup's protocols, written as a null array."""
    request_type = load_request_schema(11, version)
    body = encoded(minimal(request_type))
    assert body.count(b"\x00\x00\x00\x00" if version == 5 else b"\x01") >= 1
    null = body[:-4] + b"\xff\xff\xff\xff" if version == 5 else body[:-3] + b"\x00" + body[-2:]
    codec = load_codec(11, version, range(10))
    frame = request_frame(11, version, null, flexible=request_type.__flexible__)
    with pytest.raises(DecodeError, match="protocols is null"):
        codec.read_request(frame, read_request_header(frame))
    whole = request_frame(11, version, body, flexible=request_type.__flexible__)
    assert codec.read_request(whole, read_request_header(whole))[1].protocols == ()


@given(st.integers(0, 2**31 - 1))
def test_unsigned_varints(value: int) -> None:
    data = unsigned_varint(value)
    assert read_unsigned_varint(data, 0) == (value, len(data))


@given(st.binary(max_size=80))
def test_garbage_requests_are_decode_errors(data: bytes) -> None:
    try:
        header = read_request_header(data)
    except DecodeError:
        return
    for key in (0, 1, 3, 11, 18):
        handler = next(handler for handler, _ in SERVED if handler.key == key)
        try:
            handler.read_request(handler.codec(handler.versions[-1]), data, header)
        except DecodeError:
            pass


# Produce and Fetch are written by hand: kio is the oracle.


@pytest.mark.parametrize("version", range(3, 10))
@pytest.mark.parametrize("transactional_id", [None, "txn"])
def test_produce_requests_as_kio_writes_them(version: int, transactional_id: str | None) -> None:
    request_type = load_request_schema(0, version)
    names = names_in(request_type)
    topics = [
        {"name": "a", "partition_data": [{"index": 0, "records": b"x" * 300}, {"index": 7, "records": None}]},
        {"name": "täst", "partition_data": [{"index": 1, "records": b""}]},
    ]
    body = {
        "transactional_id": transactional_id, "acks": -1, "timeout": datetime.timedelta(milliseconds=1500),
        "topic_data": topics,
    }  # fmt: skip
    frame = b"head" + encoded(lower(body, request_type, names))
    request = produce.read_request(frame, 4, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transactional_id, -1, 1500)
    found = [
        {
            "name": name,
            "partition_data": [{"index": i, "records": None if r is None else bytes(r)} for i, r in parts],
        }
        for name, parts in request.topics
    ]
    assert found == topics
    for cut in range(4, len(frame) - 1):
        with pytest.raises(DecodeError):
            produce.read_request(frame[:cut], 4, version)


@pytest.mark.parametrize("version", range(3, 10))
def test_produce_responses_as_kio_reads_them(version: int) -> None:
    answers = [
        (
            "a",
            [
                produce.PartitionAnswer(0, 0, 41, -1, 2),
                produce.PartitionAnswer(1, 10, error_message="no", record_errors=(2, 5)),
            ],
        ),
        ("b", []),
    ]
    response_type = load_response_schema(0, version)
    body = produce.write_response(answers, version)
    entity, size = entity_reader(response_type)(body, 0)
    assert size == len(body)
    first, second = entity.responses[0].partition_responses
    assert (first.index, first.error_code, first.base_offset, first.log_append_time) == (0, 0, 41, None)
    assert (second.index, second.error_code, second.base_offset) == (1, 10, -1)
    if version >= 5:
        assert first.log_start_offset == 2
    if version >= 8:
        assert (first.error_message, second.error_message) == (None, "no")
        assert [error.batch_index for error in second.record_errors] == [2, 5]
    assert entity.responses[1].name == "b"


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_responses_as_kio_reads_them(version: int) -> None:
    answers = [
        ("a", [fetch.PartitionAnswer(0, 0, 9, 8, 7, records=b"r" * 200), fetch.PartitionAnswer(1, 1)]),
        ("b", [fetch.PartitionAnswer(2, 0, 1, 1, 0, records=memoryview(b"s"))]),
    ]
    body = b"".join(fetch.write_response(answers, version))
    entity, size = entity_reader(load_response_schema(1, version))(body, 0)
    assert size == len(body)
    (first, second), (third,) = (topic.partitions for topic in entity.responses)
    assert (first.high_watermark, first.last_stable_offset, first.records) == (9, 8, b"r" * 200)
    assert (second.error_code, second.records or b"", third.partition_index, third.records) == (
        1,
        b"",
        2,
        b"s",
    )
    assert first.aborted_transactions is None


# The registry


def test_api_versions_comes_from_the_handlers() -> None:
    @api(500, 3, 9, advertised_from=0)
    def one() -> None: ...

    @api(400, 1, 2)
    def other() -> None: ...

    registry = Registry([one, other])
    assert registry.advertised() == [(400, 1, 2), (500, 0, 9)]
    assert registry.find(1) is None
    with pytest.raises(ValueError, match="two handlers for API 400"):
        Registry([other, other])
