from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.blobs import seal, unseal
from penstock.storage.index import Mark, SparseIndex, StoredIndex, decode_index, encode_index


def index(*marks: tuple[int, int, int]) -> SparseIndex:
    made = SparseIndex()
    for mark in marks:
        made.add(Mark(*mark))
    return made


MARKS = ((10, 1000, 5), (20, 2000, 5), (30, 3000, 9))


@pytest.mark.parametrize(
    ("offset", "floor", "ceiling"),
    [(0, None, 10), (9, None, 10), (10, 10, 10), (11, 10, 20), (29, 20, 30), (30, 30, 30), (31, 30, None)],
)
def test_lookup_by_offset(offset: int, floor: int | None, ceiling: int | None) -> None:
    below, above = index(*MARKS).floor(offset), index(*MARKS).ceiling(offset)
    assert (below.offset if below else None) == floor
    assert (above.offset if above else None) == ceiling


@pytest.mark.parametrize(("timestamp", "offset"), [(0, None), (5, None), (6, 20), (9, 20), (10, 30)])
def test_lookup_by_time_stays_before_the_first_record_that_is_not_older(
    timestamp: int, offset: int | None
) -> None:
    found = index(*MARKS).floor_time(timestamp)
    assert (found.offset if found else None) == offset


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3), max_size=20))
def test_files_round_trip(marks: list[tuple[int, int, int]]) -> None:
    stored = StoredIndex(1, 2, 3, 4, 5, index(*marks))
    again = decode_index(encode_index(stored))
    assert again is not None
    assert (again.base_offset, again.covered, again.end_offset) == (1, 2, 3)
    assert (again.first_timestamp, again.max_timestamp) == (4, 5)
    assert again.index.offsets == stored.index.offsets
    assert again.index.positions == stored.index.positions
    assert again.index.timestamps == stored.index.timestamps


def test_every_damaged_byte_and_length_is_noticed() -> None:
    data = encode_index(StoredIndex(1, 2, 3, 4, 5, index(*MARKS)))
    for at in range(len(data)):
        assert decode_index(data[:at]) is None
        assert decode_index(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
    assert decode_index(data + b"\0") is None


def test_blobs_notice_every_damaged_byte() -> None:
    data = seal({"a": [1, None, "x"]})
    assert unseal(data) == {"a": [1, None, "x"]}
    for at in range(len(data)):
        assert unseal(data[:at]) is None
        assert unseal(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
    assert unseal(None) is None
