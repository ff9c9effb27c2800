"""The quick decoder says what the plain one says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka.decoding import records_from
from penstock.kafka.records import ReadRecord
from penstock.wire.batch import LOG_APPEND_TIME, read_header
from penstock.wire.compression import CompressionError
from penstock.wire.records import Record, RecordsError, decode_records, encode_batch, write_varint

contents = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple)
records = st.lists(
    st.tuples(st.integers(1, 200), st.integers(-(10**6), 10**12), contents, contents, headers),
    min_size=1,
    max_size=20,
)


@given(records, st.integers(0, 4), st.sampled_from([0, LOG_APPEND_TIME]), st.integers(0, 3_000))
def test_both_decoders_agree(plan: list[Any], codec: int, attributes: int, begin: int) -> None:
    written, offset = [], 500
    for step, *fields in plan:
        offset += step
        written.append(Record(offset, *fields))
    batch = encode_batch(written, codec=codec, attributes=attributes)
    header = read_header(batch)
    expected = [ReadRecord(3, *record) for record in decode_records(batch, header) if record.offset >= begin]
    assert records_from(begin, 3, memoryview(batch), header) == expected


@given(st.binary(max_size=60), st.integers(0, 4))
def test_damaged_content_is_an_error_or_something_that_fits(noise: bytes, codec: int) -> None:
    batch = encode_batch([Record(0, 0, b"key", b"value", (("h", b"1"),)), Record(1, 0, None, None)])
    damaged = batch[:61] + noise
    header = read_header(damaged)._replace(batch_length=len(damaged) - 12, attributes=codec)
    try:
        found = records_from(0, 0, memoryview(damaged), header)
    except (RecordsError, CompressionError):
        return
    assert len(found) <= 2


@pytest.mark.parametrize("cut", range(62, 80))
def test_a_batch_that_ends_too_early(cut: int) -> None:
    batch = encode_batch([Record(0, 0, b"key", b"value")])
    header = read_header(batch)._replace(batch_length=min(cut, len(batch) - 1) - 12)
    with pytest.raises(RecordsError):
        records_from(0, 0, memoryview(batch), header)


def test_lengths_that_lead_backwards_are_refused() -> None:
    """Whoever may write may write this; nobody who reads it should go round in circles."""
    body = bytearray(b"\x00\x00\x00\x01\x01")  # attributes, two deltas, no key, no value
    write_varint(body, 2**40)  # headers
    write_varint(body, -3)
    record = bytearray()
    write_varint(record, len(body))
    batch = encode_batch([Record(0, 0, None, None)])[:61] + bytes(record + body)
    header = read_header(batch)._replace(batch_length=len(batch) - 12)
    with pytest.raises(RecordsError, match="negative length"):
        records_from(0, 0, memoryview(batch), header)
