from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire import compression
from penstock.wire.batch import HEADER_SIZE, read_header
from penstock.wire.compression import CompressionError, compress, decompress
from penstock.wire.records import (
    Record,
    RecordsError,
    decode_records,
    encode_batch,
    read_varint,
    write_varint,
)

optional_bytes = st.none() | st.binary(max_size=60)
contents = st.tuples(
    st.integers(0, 2**43), optional_bytes, optional_bytes,
    st.lists(st.tuples(st.text(max_size=8), optional_bytes), max_size=3).map(tuple),
)  # fmt: skip


@given(st.lists(contents, min_size=1, max_size=6), st.sampled_from(range(5)), st.integers(0, 2**40))
def test_round_trip(
    items: list[tuple[int, bytes | None, bytes | None, tuple]], codec: int, base: int
) -> None:
    records = [Record(base + index, *item) for index, item in enumerate(items)]
    batch = encode_batch(records, codec=codec)
    assert read_header(batch).max_timestamp == max(record.timestamp for record in records)
    assert list(decode_records(batch)) == records


def test_a_batch_keeps_its_range_when_records_leave_it() -> None:
    batch = encode_batch([Record(5, 100, b"k", b"v")], base_offset=3, last_offset=9)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.records_count) == (3, 9, 1)
    assert [record.offset for record in decode_records(batch)] == [5]
    empty = encode_batch([], base_offset=3, last_offset=9)
    assert list(decode_records(empty)) == []
    assert read_header(empty).last_offset == 9
    with pytest.raises(ValueError, match="empty batch"):
        encode_batch([])


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert read_varint(bytes(out), 0) == (value, len(out))


@given(st.data())
def test_damaged_records_are_named_as_such(data: st.DataObject) -> None:
    """Whatever the bytes say, reading ends with records or with the two errors that say so."""
    batch = bytearray(
        encode_batch(
            [Record(i, i, b"key", b"value" * 5) for i in range(4)], codec=data.draw(st.sampled_from(range(5)))
        )
    )
    for _ in range(data.draw(st.integers(1, 5))):
        batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        for record in decode_records(bytes(batch)):
            assert isinstance(record, Record)
    except (RecordsError, CompressionError):
        pass


def test_header_names_that_are_not_utf_8_survive() -> None:
    batch = encode_batch([Record(0, 1, b"k", b"v", (("\udcff\udcfe-name", b"x"),))])
    assert b"\xff\xfe-name" in batch
    assert encode_batch(list(decode_records(batch))) == batch


def test_snappy_in_the_framing_of_java_clients() -> None:
    first, second = b"one" * 10, b"two" * 20
    blocks = b"".join(
        struct.pack(">i", len(block)) + block
        for block in (compress(compression.SNAPPY, first), compress(compression.SNAPPY, second))
    )
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks
    assert decompress(compression.SNAPPY, framed) == first + second
    with pytest.raises(CompressionError):
        decompress(compression.SNAPPY, framed[:-1])


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_bomb_is_not_opened(codec: int) -> None:
    bomb = compress(codec, bytes(3_000_000))
    assert decompress(codec, bomb) == bytes(3_000_000)
    assert decompress(codec, bomb, 3_000_000) == bytes(3_000_000)
    with pytest.raises(CompressionError):
        decompress(codec, bomb, 2_999_999)
    with pytest.raises(CompressionError):
        decompress(codec, bomb[: len(bomb) // 2])


def test_unknown_codecs() -> None:
    with pytest.raises(CompressionError):
        decompress(6, b"")
    with pytest.raises(CompressionError):
        compress(6, b"")
