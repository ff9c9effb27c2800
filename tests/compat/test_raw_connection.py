"""One connection: order of answers, `acks=0`, pipelining, versions that nobody serves."""

from __future__ import annotations

import struct

import pytest

from penstock.types import ErrorCode
from tests.support.raw import (
    API_VERSIONS,
    CLIENT_ID,
    FETCH,
    METADATA,
    PRODUCE,
    ConnectionEndedError,
    RawClient,
    all_records,
    decode_response,
    encode_request,
    fetch_body,
    make_batch,
    produce_body,
    read_all,
)
from tests.support.wait import wait_until


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    raw.create_topic(topic, partitions=4)
    return topic


def test_no_answer_to_acks_0_and_the_next_ones_undisturbed(raw: RawClient, topic: str) -> None:
    for index in range(5):
        raw.send_produce(topic, make_batch([b"silent %d" % index]), acks=0)
    sent = raw.send_produce(topic, make_batch([b"loud"]), acks=-1)
    received, answer = raw.receive(PRODUCE, 9)
    assert received == sent
    assert answer.responses[0].partition_responses[0].base_offset == 5
    assert raw.is_silent(0.2)
    assert raw.end_offset(topic) == 6


def test_acks_0_between_others_in_one_pipeline(raw: RawClient, topic: str) -> None:
    expected = []
    for index in range(20):
        acks = (0, 1, -1)[index % 3]
        sent = raw.send_produce(topic, make_batch([b"%d" % index]), acks=acks)
        if acks:
            expected.append((sent, index))
    received = []
    for _ in expected:
        correlation_id, answer = raw.receive(PRODUCE, 9)
        received.append((correlation_id, answer.responses[0].partition_responses[0].base_offset))
    assert received == expected


@pytest.mark.parametrize("count", [50, 300, 1_000])
def test_what_arrived_before_the_client_left_is_stored(
    raw: RawClient, bootstrap: str, topic: str, count: int
) -> None:
    """A producer that asks for no answers may send all it has, close at once, and count on TCP."""
    bodies = [produce_body(topic, {0: make_batch([b"%d" % index])}, acks=0) for index in range(count)]
    frames = [encode_request(PRODUCE, 9, index, body) for index, body in enumerate(bodies)]
    with RawClient(bootstrap) as hasty:
        hasty.socket.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    wait_until(lambda: raw.end_offset(topic) == count, "all messages")
    stored = [record.value for _, batch in read_all(raw, topic) for record in all_records(batch)]
    assert stored == [b"%d" % index for index in range(count)]


def test_acks_0_that_fails_closes_or_stays_silent(raw: RawClient, bootstrap: str, topic: str) -> None:
    """There is no way to tell the producer, so Kafka closes the connection for it to look for news."""
    with RawClient(bootstrap) as other:
        other.send_produce(f"{topic}-unknown", make_batch([b"a"]), acks=0)
        try:
            assert other.produce(topic, make_batch([b"b"])).base_offset == 0
        except (ConnectionEndedError, ConnectionError):
            assert raw.end_offset(topic) == 0


def test_answers_keep_the_order_of_requests(raw: RawClient, topic: str) -> None:
    """Slow ones (produce, a fetch that waits) and quick ones (metadata) mixed in one pipeline."""
    metadata = {"topics": [{"name": topic}]}
    plan = []
    for round_number in range(5):
        batches = {partition: make_batch([b"%d" % round_number]) for partition in range(4)}
        plan += [
            (PRODUCE, 9, produce_body(topic, batches)),
            (METADATA, 9, metadata),
            (FETCH, 12, fetch_body(topic, {0: 1_000_000}, max_wait_ms=50)),
            (API_VERSIONS, 3, {"client_software_name": "raw", "client_software_version": "1"}),
            (FETCH, 12, fetch_body(topic, {0: round_number}, max_wait_ms=50)),
        ]
    sent = [raw.send(*step) for step in plan]
    received = [raw.receive(key, version)[0] for key, version, _ in plan]
    assert received == sent


def test_pipelined_produce_requests_are_stored_in_order(raw: RawClient, topic: str) -> None:
    count = 200
    for index in range(count):
        raw.send_produce(topic, make_batch([b"%d" % index, b"+"]))
    answers = [raw.receive_produced() for _ in range(count)]
    assert [answer.base_offset for answer in answers] == [2 * index for index in range(count)]
    stored = [record.value for _, batch in read_all(raw, topic) for record in all_records(batch)]
    assert stored == [value for index in range(count) for value in (b"%d" % index, b"+")]


def test_requests_that_arrive_byte_by_byte(bootstrap: str, topic: str) -> None:
    frame = encode_request(PRODUCE, 9, 1, produce_body(topic, {0: make_batch([b"drop by drop"])}))
    with RawClient(bootstrap) as slow:
        for byte in struct.pack(">i", len(frame)) + frame:
            slow.socket.sendall(bytes([byte]))
        assert slow.receive_produced().error_code is ErrorCode.none


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_api_versions_version(raw: RawClient, version: int) -> None:
    """Answered in the shape of version 0, which lists what is served, on a connection that goes on."""
    # The body is not readable, for the same reason: its shape is not known.
    raw.send_frame(
        struct.pack(">hhih", API_VERSIONS, version, 77, len(CLIENT_ID)) + CLIENT_ID + b"\x00\x02a\x02b\x00"
    )
    correlation_id, answer = decode_response(API_VERSIONS, 0, raw.receive_frame())
    assert correlation_id == 77
    assert answer.error_code is ErrorCode.unsupported_version
    served = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    first, last = served[API_VERSIONS]
    assert first == 0
    assert last >= 3
    again = raw.request(API_VERSIONS, 3, {"client_software_name": "raw", "client_software_version": "1"})
    assert again.error_code is ErrorCode.none


def test_all_api_versions_versions_list_the_same(raw: RawClient) -> None:
    named = {"client_software_name": "raw", "client_software_version": "1"}
    lists = []
    for version in range(4):
        answer = raw.request(API_VERSIONS, version, named if version >= 3 else {})
        lists.append({(entry.api_key, entry.min_version, entry.max_version) for entry in answer.api_keys})
    assert lists[0]
    assert lists == [lists[0]] * 4


def test_produce_is_advertised_from_version_0(raw: RawClient) -> None:
    """Older librdkafka switches compression off where it is not."""
    answer = raw.request(API_VERSIONS, 0, {})
    served = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    first, last = served[PRODUCE]
    assert first == 0
    assert last >= 9


@pytest.mark.parametrize(("key", "version"), [(METADATA, 99), (FETCH, 1), (32_000, 0), (-1, 0)])
def test_what_is_not_served_closes_that_connection_alone(
    raw: RawClient, bootstrap: str, key: int, version: int
) -> None:
    with RawClient(bootstrap) as other:
        other.send_frame(struct.pack(">hhih", key, version, 1, len(CLIENT_ID)) + CLIENT_ID + bytes(20))
        with pytest.raises((ConnectionEndedError, ConnectionError)):
            other.receive_frame()
    assert raw.request(API_VERSIONS, 0, {}).error_code is ErrorCode.none
