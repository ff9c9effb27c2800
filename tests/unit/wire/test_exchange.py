"""Requests that a node sends and answers that it gets, against kio's own readers and writers."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from penstock.wire.codec import load_codec, read_request_header
from penstock.wire.exchange import correlation_id_of, frame_of, load_exchange
from penstock.wire.primitives import DecodeError
from penstock.wire.shapes import lower

FETCH, CREATE_TOPICS, VOTE, HEARTBEAT, ALLOCATE = (1, 17), (19, 7), (52, 2), (63, 1), (67, 0)
OLD_METADATA = (3, 1)
"""Not flexible: no tagged fields anywhere."""
EVERY = (FETCH, CREATE_TOPICS, VOTE, HEARTBEAT, ALLOCATE, OLD_METADATA)


def answer_frame(api: tuple[int, int], correlation_id: int, body: dict[str, Any]) -> bytes:
    """Without its length, as a connection hands it over."""
    response_type = load_response_schema(*api)
    out = io.BytesIO(struct.pack(">i", correlation_id))
    out.seek(0, io.SEEK_END)
    if response_type.__flexible__:
        out.write(b"\0")
    entity_writer(response_type)(out, lower(body, response_type, frozenset(body)))
    return out.getvalue()


@pytest.mark.parametrize("api", EVERY)
def test_a_request_is_read_by_the_serving_side(api: tuple[int, int]) -> None:
    frame = load_exchange(*api).request(77, "penstock-node-1", {})
    (size,) = struct.unpack_from(">i", frame)
    assert size == len(frame) - 4
    header = read_request_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version) == api
    assert (header.correlation_id, header.client_id) == (77, "penstock-node-1")
    codec = load_codec(*api, range(api[1], api[1] + 1))
    request, _ = codec.read_request(memoryview(frame)[4:], header)
    assert type(request) is load_request_schema(*api)


def test_fields_arrive() -> None:
    body = {"broker_id": 3, "broker_epoch": 1 << 40, "current_metadata_offset": 9, "want_shut_down": True}
    frame = memoryview(load_exchange(*HEARTBEAT).request(1, "n", body))[4:]
    header = read_request_header(frame)
    request, size = entity_reader(load_request_schema(*HEARTBEAT))(frame, header.end + 1)
    assert header.end + 1 + size == len(frame)
    assert (request.broker_id, request.broker_epoch) == (3, 1 << 40)
    assert (request.current_metadata_offset, request.want_shut_down) == (9, True)


def test_a_name_that_the_message_does_not_have_is_an_error() -> None:
    with pytest.raises((AssertionError, KeyError, TypeError, ValueError)):
        load_exchange(*HEARTBEAT).request(1, "n", {"broker": 3})


@pytest.mark.parametrize("api", EVERY)
def test_an_answer_is_read(api: tuple[int, int]) -> None:
    frame = answer_frame(api, 5, {})
    assert correlation_id_of(frame) == 5
    response = load_exchange(*api).response(memoryview(frame))
    assert type(response) is load_response_schema(*api)


def test_fields_of_an_answer_arrive() -> None:
    frame = answer_frame(ALLOCATE, 5, {"producer_id_start": 4000, "producer_id_len": 1000})
    response = load_exchange(*ALLOCATE).response(frame)
    assert (response.producer_id_start, response.producer_id_len) == (4000, 1000)


def test_tagged_fields_of_the_header_are_skipped() -> None:
    whole = answer_frame(ALLOCATE, 5, {"producer_id_start": 4000})
    tagged = whole[:4] + b"\x01\x00\x02hi" + whole[5:]
    assert load_exchange(*ALLOCATE).response(tagged).producer_id_start == 4000


@pytest.mark.parametrize("api", EVERY)
def test_half_an_answer_is_a_decode_error(api: tuple[int, int]) -> None:
    frame = answer_frame(api, 5, {})
    for size in range(4, len(frame)):
        with pytest.raises(DecodeError):
            load_exchange(*api).response(frame[:size])


def test_an_answer_without_a_correlation_id() -> None:
    for frame in (b"", b"\0\0\0"):
        with pytest.raises(DecodeError, match="correlation id"):
            correlation_id_of(frame)


@pytest.mark.parametrize("is_flexible", [False, True])
def test_a_request_that_is_sent_on_keeps_its_body(is_flexible: bool) -> None:
    frame = frame_of(19, 7, 3, "näme", is_flexible, memoryview(b"body"))
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    header = read_request_header(frame[4:])
    assert (header.api_key, header.api_version, header.correlation_id) == (19, 7, 3)
    assert header.client_id == "näme"
    assert frame[4 + header.end :] == (b"\0body" if is_flexible else b"body")


def test_an_exchange_is_made_once() -> None:
    assert load_exchange(*VOTE) is load_exchange(*VOTE)
