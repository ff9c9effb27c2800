"""The hand-written heartbeat: its own reader, and kio's, which knows nothing of the load."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest
from kio.serial import entity_reader

from penstock.wire.broker_heartbeat import (
    LOAD_TAG,
    PARTITIONS_MAX,
    HeartbeatRequest,
    LoadData,
    PartitionLoadData,
    read_request,
    write_request,
)
from penstock.wire.primitives import DecodeError, unsigned_varint

READ = entity_reader(BrokerHeartbeatRequest)
RATE = st.floats(0, 1e9, width=32)
PARTITIONS = st.builds(PartitionLoadData, st.uuids(), st.integers(0, 2**31 - 1), RATE, RATE, RATE)
BYTES = st.integers(0, 2**63 - 1)
LOADS = st.builds(LoadData, RATE, RATE, RATE, BYTES, BYTES, st.lists(PARTITIONS, max_size=5))
REQUESTS = st.builds(
    HeartbeatRequest,
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.booleans(),
    st.frozensets(st.uuids(), max_size=4),
    st.none() | LOADS,
)
LOAD = LoadData(0.5, 1.0, 2.0, 3, 4, [PartitionLoadData(UUID(int=7), 1, 2.0, 3.0, 0.25)])
BEAT = HeartbeatRequest(1, 2, 3, want_shut_down=False, load=LOAD)


@given(REQUESTS)
def test_what_is_written_is_read(request: HeartbeatRequest) -> None:
    assert read_request(write_request(request), 0, 1) == request


@given(REQUESTS.map(lambda each: each._replace(load=None)))
def test_without_a_load_it_is_kafka_s(request: HeartbeatRequest) -> None:
    read, size = READ(written := write_request(request), 0)
    assert size == len(written)
    assert (read.broker_id, read.broker_epoch, read.want_shut_down) == (
        request.broker_id, request.broker_epoch, request.want_shut_down,
    )  # fmt: skip
    assert {each for each in read.offline_log_dirs or () if each is not None} == request.offline - {
        UUID(int=0)
    }


@given(REQUESTS, st.data())
def test_a_frame_that_is_cut_off_is_refused(request: HeartbeatRequest, data: st.DataObject) -> None:
    written = write_request(request)
    with pytest.raises(DecodeError):
        read_request(written[: data.draw(st.integers(0, len(written) - 1))], 0, 1)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read(garbage: bytes) -> None:
    head = write_request(BEAT._replace(load=None))[:-1]
    for tag in (0, LOAD_TAG):
        frame = head + b"\x01" + unsigned_varint(tag) + unsigned_varint(len(garbage)) + garbage
        try:
            read_request(frame, 0, 1)
        except DecodeError:
            pass


def test_a_load_in_another_form_is_passed_over() -> None:
    written = write_request(BEAT)
    at = written.index(struct.pack(">Bf", 1, 0.5))
    assert read_request(written[:at] + b"\x02" + written[at + 1 :], 0, 1) == BEAT._replace(load=None)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0])
def test_what_is_no_amount_is_refused(number: float) -> None:
    for load in (
        LOAD._replace(busy=number),
        LOAD._replace(partitions=[LOAD.partitions[0]._replace(share=number)]),
    ):
        with pytest.raises(DecodeError, match="no number"):
            read_request(write_request(BEAT._replace(load=load)), 0, 1)


def test_the_busiest_partitions_are_told_when_there_are_too_many() -> None:
    many = [PartitionLoadData(UUID(int=number), 0, 0.0, 0.0, 0.0) for number in range(PARTITIONS_MAX + 5)]
    read = read_request(write_request(BEAT._replace(load=LOAD._replace(partitions=many))), 0, 1)
    assert read.load is not None
    assert read.load.partitions == many[:PARTITIONS_MAX]
