from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.types import ApiError, ErrorCode
from penstock.wire import batch as batches
from penstock.wire.batch import BatchError, check_batch, check_produced, iterate_headers, read_header
from penstock.wire.records import Record, encode_batch


def make_batch(count: int = 3, **options: int) -> bytes:
    return encode_batch([Record(i, 1000 + i, b"k%d" % i, b"v%d" % i) for i in range(count)], **options)


def damaged(batch: bytes, position: int, form: str, value: int, *, mend_crc: bool = True) -> memoryview:
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    if mend_crc:
        struct.pack_into(">I", changed, 17, batches.crc32c(bytes(changed[21:])))
    return memoryview(bytes(changed))


def test_the_header_is_read_as_it_was_written() -> None:
    header = read_header(make_batch(3, base_offset=0, producer_id=7, producer_epoch=2, base_sequence=9))
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 2, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        7,
        2,
        9,
        11,
    )
    assert (header.base_timestamp, header.max_timestamp, header.records_count) == (1000, 1002, 3)
    assert header.size == len(make_batch(3))


def test_sequences_wrap_after_two_to_the_31() -> None:
    header = read_header(make_batch(3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0


def test_patching_offset_and_epoch_keeps_the_crc() -> None:
    batch = make_batch()
    patched = batches.patched_prefix(read_header(batch), 77, 5) + batch[batches.PATCHED_SIZE :]
    header = check_batch(memoryview(patched))
    assert (header.base_offset, header.partition_leader_epoch) == (77, 5)


def test_log_append_time_is_inside_the_crc() -> None:
    stamped = batches.with_log_append_time(make_batch(), 123_456)
    header = check_batch(memoryview(stamped))
    assert header.is_log_append_time
    assert header.max_timestamp == 123_456


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.corrupt_message),
        (memoryview(b""), ErrorCode.corrupt_message),
        (memoryview(make_batch()[:60]), ErrorCode.corrupt_message),
        (memoryview(make_batch()[:-1]), ErrorCode.corrupt_message),
        (memoryview(make_batch() * 2), ErrorCode.invalid_record),
        (memoryview(make_batch() + b"x"), ErrorCode.invalid_record),
        (damaged(make_batch(), 16, ">b", 1), ErrorCode.unsupported_for_message_format),
        (damaged(make_batch(), 8, ">i", 3), ErrorCode.corrupt_message),
        (damaged(make_batch(), 8, ">i", -1), ErrorCode.corrupt_message),
        (damaged(make_batch(), 65, ">b", 99, mend_crc=False), ErrorCode.corrupt_message),
        (damaged(make_batch(), 21, ">h", batches.CONTROL), ErrorCode.invalid_record),
        (damaged(make_batch(), 21, ">h", 7), ErrorCode.unsupported_compression_type),
        (damaged(make_batch(), 21, ">h", batches.TRANSACTIONAL), ErrorCode.invalid_record),
        (damaged(make_batch(), 57, ">i", 4), ErrorCode.invalid_record),
        (damaged(make_batch(), 57, ">i", 0), ErrorCode.invalid_record),
        (damaged(make_batch(), 23, ">i", -1), ErrorCode.invalid_record),
        (damaged(make_batch(), 43, ">q", 5), ErrorCode.invalid_record),
    ],
)
def test_what_producers_may_not_send(records: memoryview | None, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        check_produced(records)
    assert caught.value.code == code


@given(st.binary(max_size=200))
def test_garbage_never_passes_and_never_breaks(data: bytes) -> None:
    with pytest.raises(ApiError):
        check_produced(memoryview(data))
    with pytest.raises(BatchError):
        check_batch(memoryview(data))


@given(st.data())
def test_a_flipped_bit_behind_the_prefix_is_found(data: st.DataObject) -> None:
    batch = bytearray(make_batch())
    bit = data.draw(st.integers(16 * 8, len(batch) * 8 - 1))
    batch[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BatchError):
        check_batch(memoryview(batch))


def test_iterating_stops_at_a_partial_batch() -> None:
    one = make_batch(2)
    positions = [position for position, _ in iterate_headers(one + one + one[:-1])]
    assert positions == [0, len(one)]
    with pytest.raises(BatchError, match="magic"):
        list(iterate_headers(one + bytes(100)))
