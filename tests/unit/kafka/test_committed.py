"""What readers see of a fetch: committed records, in order, and none that was damaged."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka.committed import Aborted, DamagedError, open_fetched
from penstock.wire.batch import CONTROL, TRANSACTIONAL
from penstock.wire.records import Record, encode_batch
from tests.support.raw import resealed

if TYPE_CHECKING:
    from penstock.kafka.records import Fetched

COMMIT, ABORT = 1, 0


def data(offset: int, *values: bytes, producer: int = -1, attributes: int = 0, codec: int = 0) -> bytes:
    records = [Record(offset + place, 5, b"k", value) for place, value in enumerate(values)]
    return encode_batch(records, codec=codec, attributes=attributes, producer_id=producer)


def written(offset: int, *values: bytes, producer: int) -> bytes:
    return data(offset, *values, producer=producer, attributes=TRANSACTIONAL)


def marker(offset: int, kind: int, *, producer: int) -> bytes:
    record = Record(offset, 5, struct.pack(">hh", 0, kind), b"\0" * 6)
    return encode_batch([record], attributes=TRANSACTIONAL | CONTROL, producer_id=producer)


def opened(offset: int, *batches: bytes, aborted: tuple[tuple[int, int], ...] = ()) -> Fetched:
    entries = [Aborted(first, producer) for producer, first in aborted]
    return open_fetched(3, offset, b"".join(batches), entries, end=100, log_start=0)


def values(fetched: Fetched) -> list[bytes | None]:
    return [record.value for record in fetched.records]


def test_a_fetch_may_begin_inside_a_batch() -> None:
    fetched = opened(11, data(10, b"a", b"b", b"c"), data(13, b"d"))
    assert values(fetched) == [b"b", b"c", b"d"]
    assert [record.offset for record in fetched.records] == [11, 12, 13]
    assert fetched.records[0].partition == 3
    assert fetched.next_offset == 14


def test_a_batch_that_is_cut_off_comes_with_the_next_fetch() -> None:
    fetched = opened(0, data(0, b"a"), data(1, b"b")[:-1])
    assert values(fetched) == [b"a"]
    assert fetched.next_offset == 1


def test_nothing_but_half_a_batch_is_an_error() -> None:
    with pytest.raises(DamagedError, match="no whole batch"):
        opened(0, data(0, b"a")[:-1])


def test_an_empty_fetch_stays_where_it_is() -> None:
    assert opened(7).next_offset == 7


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_is_opened(codec: int) -> None:
    assert values(opened(0, data(0, *[b"x" * 100] * 20, codec=codec))) == [b"x" * 100] * 20


def test_gaps_of_compaction_are_passed_over() -> None:
    compacted = encode_batch([Record(12, 5, b"k", b"v")], base_offset=10, last_offset=19)
    empty = encode_batch([], base_offset=20, last_offset=29)
    fetched = opened(10, compacted, empty)
    assert [record.offset for record in fetched.records] == [12]
    assert fetched.next_offset == 30


def test_a_wrong_checksum_is_never_shown() -> None:
    batch = bytearray(data(0, b"hello"))
    batch[-3] ^= 1
    with pytest.raises(DamagedError, match="offset 0 has a wrong checksum"):
        opened(0, bytes(batch))


def test_another_format_is_refused() -> None:
    batch = bytearray(data(0, b"hello"))
    batch[16] = 1
    with pytest.raises(DamagedError, match="magic 1"):
        opened(0, bytes(batch))


@pytest.mark.parametrize(
    ("body", "codec"), [(b"poison", 0), (b"", 0), (b"\xff" * 20, 0), (b"not compressed", 1)]
)
def test_a_batch_whose_records_are_none_is_passed_over_and_named(body: bytes, codec: int) -> None:
    fetched = opened(0, data(0, b"a"), resealed(data(1, b"b", b"c", codec=codec), body), data(3, b"d"))
    assert values(fetched) == [b"a", b"d"]
    assert [each.offset for each in fetched.undecodable] == [1]
    assert fetched.next_offset == 4


@pytest.mark.parametrize("offsets", [(1, 9), (2, 1), (1, 1), (0, 2)])
def test_records_keep_to_the_offsets_of_their_batch(offsets: tuple[int, int]) -> None:
    forged = encode_batch([Record(each, 5, None, b"x") for each in offsets], base_offset=1, last_offset=2)
    fetched = opened(1, forged, data(3, b"d"))
    assert values(fetched) == [b"d"]
    assert [each.offset for each in fetched.undecodable] == [1]


def test_markers_are_not_shown_but_passed() -> None:
    fetched = opened(0, written(0, b"a", producer=1), marker(1, COMMIT, producer=1))
    assert values(fetched) == [b"a"]
    assert fetched.next_offset == 2


def test_an_aborted_transaction_ends_at_its_marker() -> None:
    batches = [
        written(0, b"no", producer=1),
        data(1, b"plain"),
        written(2, b"of another", producer=2),
        marker(3, ABORT, producer=1),
        written(4, b"next of the same", producer=1),
        marker(5, COMMIT, producer=1),
        marker(6, COMMIT, producer=2),
    ]
    fetched = opened(0, *batches, aborted=((1, 0),))
    assert values(fetched) == [b"plain", b"of another", b"next of the same"]
    assert fetched.next_offset == 7


def test_a_fetch_may_begin_inside_an_aborted_transaction() -> None:
    fetched = opened(5, written(5, b"no", producer=1), marker(6, ABORT, producer=1), aborted=((1, 2),))
    assert values(fetched) == []
    assert fetched.next_offset == 7


def test_two_aborted_transactions_of_one_producer_and_a_committed_one_between() -> None:
    batches = [
        written(0, b"no", producer=1),
        marker(1, ABORT, producer=1),
        written(2, b"yes", producer=1),
        marker(3, COMMIT, producer=1),
        written(4, b"no again", producer=1),
        marker(5, ABORT, producer=1),
    ]
    assert values(opened(0, *batches, aborted=((1, 4), (1, 0)))) == [b"yes"]


def test_the_list_is_about_transactions_not_about_all_that_a_producer_writes() -> None:
    batches = [
        data(0, b"outside", producer=1),
        written(1, b"no", producer=1),
        marker(2, ABORT, producer=1),
    ]
    assert values(opened(0, *batches, aborted=((1, 1),))) == [b"outside"]


transactions = st.lists(
    st.tuples(st.integers(0, 3), st.booleans(), st.integers(1, 3)), min_size=1, max_size=12
)


@given(transactions, st.data())
def test_any_interleaving_shows_what_was_committed_from_any_offset(
    plan: list[tuple[int, bool, int]], draw: st.DataObject
) -> None:
    """Transactions of several producers, mixed; a broker lists those aborted that overlap the fetch."""
    waiting: dict[int, list[tuple[bool, int]]] = {}
    for producer, commits, count in plan:
        waiting.setdefault(producer, []).append((commits, count))
    batches: list[tuple[int, bytes]] = []
    visible: list[int] = []
    aborted: list[tuple[int, int, int]] = []  # producer, first, last
    open_now: dict[int, tuple[bool, int, list[int]]] = {}
    offset = 0
    while waiting or open_now:
        producer = draw.draw(st.sampled_from(sorted({*waiting, *open_now})))
        if producer not in open_now:
            commits, count = waiting[producer].pop(0)
            if not waiting[producer]:
                del waiting[producer]
            open_now[producer] = (commits, count, [])
        commits, left, offsets = open_now[producer]
        if left:
            batches.append((offset, written(offset, b"%d" % offset, producer=producer)))
            open_now[producer] = (commits, left - 1, [*offsets, offset])
        else:
            batches.append((offset, marker(offset, COMMIT if commits else ABORT, producer=producer)))
            del open_now[producer]
            if commits:
                visible += offsets
            else:
                aborted.append((producer, offsets[0], offset))
        offset += 1
    begin = draw.draw(st.integers(0, offset - 1))
    overlapping = tuple((producer, first) for producer, first, last in aborted if last >= begin)
    fetched = opened(begin, *(batch for at, batch in batches if at >= begin), aborted=overlapping)
    assert [record.offset for record in fetched.records] == [
        each for each in sorted(visible) if each >= begin
    ]
    assert fetched.next_offset == offset
