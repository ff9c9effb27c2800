"""Ranges of bytes that are known to be good."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.checked import RANGES_MAX, CheckedRanges

SIZE = 40
RANGES = st.lists(st.tuples(st.integers(0, SIZE), st.integers(1, 9)), max_size=12)


def covered(ranges: CheckedRanges) -> set[int]:
    return {at for at in range(SIZE + 10) if ranges.end_of(at) > at}


@given(RANGES, st.integers(0, SIZE))
def test_ranges_are_as_good_as_a_set_of_bytes(added: list[tuple[int, int]], position: int) -> None:
    ranges = CheckedRanges()
    known: set[int] = set()
    for start, size in added:
        ranges.add(start, start + size)
        known |= set(range(start, start + size))
    assert covered(ranges) == known
    ranges.truncate(position)
    assert covered(ranges) == {at for at in known if at < position}


def test_what_is_appended_and_read_in_order_takes_one_range() -> None:
    ranges = CheckedRanges()
    ranges.add(1000, 1100)
    for end in range(1200, 2000, 100):
        ranges.add(end - 100, end)
    for end in range(100, 1100, 100):
        ranges.add(end - 100, end)
    assert len(ranges) == 1
    assert ranges.end_of(0) == 1900


def test_who_jumps_about_makes_it_forget_and_not_grow() -> None:
    ranges = CheckedRanges()
    for at in range(10 * RANGES_MAX):
        ranges.add(at * 100, at * 100 + 1 + at)
    assert len(ranges) == RANGES_MAX
    last = 10 * RANGES_MAX - 1
    assert ranges.end_of(last * 100) == last * 100 + 1 + last
    assert ranges.end_of(0) == 0
