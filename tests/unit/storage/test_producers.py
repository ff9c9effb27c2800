from __future__ import annotations

import pytest

from penstock.storage import ProducerStates
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import CONTROL, BatchHeader, read_header
from tests.unit.storage.builders import NOW_MS, batch

LAST = 2**31 - 1


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 1) -> BatchHeader:
    return read_header(
        batch([b""] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def written(*batches: tuple[int, int]) -> ProducerStates:
    states = ProducerStates()
    offset = 100
    for sequence, count in batches:
        states.update(header(sequence, count), offset, NOW_MS)
        offset += count
    return states


def refused(states: ProducerStates, batch_header: BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        states.check(batch_header)
    return caught.value.code


def test_the_next_sequence_is_accepted() -> None:
    assert written((0, 3), (3, 2)).check(header(5)) is None


def test_batches_without_producer_are_not_tracked() -> None:
    states = ProducerStates()
    plain = read_header(batch())
    assert states.check(plain) is None
    states.update(plain, 0, NOW_MS)
    assert len(states) == 0


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerStates().check(header(17)) is None


def test_the_last_five_batches_are_recognised() -> None:
    states = written(*[(at, 1) for at in range(7)])
    for at in range(2, 7):
        assert states.check(header(at)) == (100 + at, 100 + at, NOW_MS)
    for at in (0, 1):
        assert refused(states, header(at)) is ErrorCode.out_of_order_sequence_number


def test_a_duplicate_must_match_whole() -> None:
    states = written((0, 3), (3, 3))
    assert states.check(header(0, 3)) == (100, 102, NOW_MS)
    assert refused(states, header(0, 2)) is ErrorCode.out_of_order_sequence_number
    assert refused(states, header(3, 4)) is ErrorCode.out_of_order_sequence_number
    assert refused(states, header(8)) is ErrorCode.out_of_order_sequence_number


def test_sequences_wrap() -> None:
    states = written((LAST - 1, 2))
    assert states.check(header(0)) is None
    states = written((LAST, 3))
    assert header(LAST, 3).last_sequence == 1
    assert states.check(header(2)) is None
    assert states.check(header(LAST, 3)) == (100, 102, NOW_MS)


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    states = written((0, 3))
    assert refused(states, header(3, epoch=1)) is ErrorCode.out_of_order_sequence_number
    assert states.check(header(0, epoch=1)) is None
    states.update(header(0, epoch=1), 103, NOW_MS)
    assert refused(states, header(3, epoch=0)) is ErrorCode.invalid_producer_epoch
    assert states.check(header(1, epoch=1)) is None
    assert states.check(header(0, epoch=1)) == (103, 103, NOW_MS)


def test_a_control_batch_brings_its_epoch_and_no_sequence() -> None:
    states = written((0, 1))
    marker = header(0, epoch=3)
    states.update(marker._replace(attributes=CONTROL, base_sequence=-1), 101, NOW_MS)
    state = states.get(1)
    assert state is not None
    assert (state.epoch, state.batches) == (3, [])
    assert states.check(header(0, epoch=3)) is None


def test_expiry_and_json() -> None:
    states = written((0, 1), (1, 1))
    states.update(header(9, producer_id=2), 500, NOW_MS + 50)
    again = ProducerStates.from_json(states.to_json())
    assert again.to_json() == states.to_json()
    assert again.last_offsets() == {1: 101, 2: 500}
    assert again.expire(NOW_MS + 100, 100) == 1
    assert again.last_offsets() == {2: 500}
