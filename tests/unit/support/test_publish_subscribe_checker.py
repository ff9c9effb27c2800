"""The checker of the publish/subscribe test finds what is planted, and nothing in what is as it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.publish_subscribe.checker import (
    Anomaly,
    Got,
    Kind,
    MessageId,
    Place,
    Promise,
    Reader,
    Sent,
    Subscribing,
    check,
    summary,
)
from tests.support.publish_subscribe.journal import Journal, encode, path_of, read_journals

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "news"
FROM_THE_START = {TOPIC: Subscribing(0, 1)}
FINALS = {("p1", TOPIC): 4, ("p2", TOPIC): 4}


def message(publisher: str, seq: int) -> MessageId:
    return MessageId(publisher, TOPIC, seq)


def place(offset: int) -> Place:
    return Place(TOPIC, 0, offset)


LOG = [message(publisher, seq) for seq in range(1, 5) for publisher in ("p1", "p2")]
"""What is at offsets 0 to 7."""


def sent() -> list[Sent]:
    """Put at times 10, 20, …, each acknowledged 5 later."""
    return [
        Sent(each, 10.0 * (offset + 1), 10.0 * (offset + 1) + 5, place(offset))
        for offset, each in enumerate(LOG)
    ]


def got(*offsets: int) -> list[Got]:
    return [Got(place(offset), LOG[offset], (LOG[offset].publisher, LOG[offset].seq)) for offset in offsets]


def reader(*lives: list[Got], promise: Promise = Promise.EXACTLY_ONCE, name: str = "s1") -> Reader:
    return Reader(name, promise, FROM_THE_START, list(lives))


def kinds(*readers: Reader, attempts: list[Sent] | None = None) -> set[Kind]:
    return {each.kind for each in check(sent() if attempts is None else attempts, FINALS, readers)}


def test_nothing_is_found_where_all_is_well() -> None:
    whole = reader(got(0, 1, 2), [], got(3, 4, 5, 6, 7))
    other = reader(got(*range(8)), name="s2")
    assert check(sent(), FINALS, [whole, other]) == []


@pytest.mark.parametrize("missing", range(8))
def test_a_lost_message_wherever_it_was(missing: int) -> None:
    rest = [offset for offset in range(8) if offset != missing]
    assert kinds(reader(got(*rest))) == {Kind.LOST}
    assert kinds(reader(got(*rest), promise=Promise.AT_LEAST_ONCE)) == {Kind.LOST}


def test_what_was_never_acknowledged_may_not_be_lost_if_it_was_put_for_good() -> None:
    attempts = [*sent()[:-1], Sent(LOG[7], 80)]
    assert kinds(reader(got(*range(8))), attempts=attempts) == set()
    assert kinds(reader(got(*range(7))), attempts=attempts) == {Kind.LOST}


def test_a_repeated_get() -> None:
    assert kinds(reader(got(0, 1, 2), got(2, 3, 4, 5, 6, 7))) == {Kind.REPEATED}
    assert kinds(reader(got(0, 1, 2), got(1, 2, 3, 4, 5, 6, 7))) == {Kind.REPEATED, Kind.DISORDER}


def test_a_message_that_was_stored_twice() -> None:
    twice = [*got(*range(8)), Got(place(8), LOG[3])]
    assert kinds(reader(twice)) == {Kind.REPEATED}


def test_disorder_of_a_publisher() -> None:
    changed = [Got(place(offset), LOG[index]) for offset, index in enumerate((0, 1, 4, 3, 2, 5, 6, 7))]
    unplaced = [each._replace(place=None) for each in sent()]
    assert kinds(reader(changed), attempts=unplaced) == {Kind.DISORDER}


def test_positions_that_go_back() -> None:
    assert kinds(reader(got(0, 1, 3, 2, 4, 5, 6, 7))) == {Kind.DISORDER}


def test_two_orders_of_one_topic() -> None:
    swapped = [*got(*range(6)), Got(place(6), LOG[7]), Got(place(7), LOG[6])]
    unplaced = [each._replace(place=None) for each in sent()]
    found = kinds(reader(got(*range(8))), reader(swapped, name="s2"), attempts=unplaced)
    assert found == {Kind.INCONSISTENT}


def test_an_acknowledgement_with_another_offset() -> None:
    attempts = [*sent(), Sent(LOG[2], 90, 95, place(3))]
    assert kinds(reader(got(*range(8))), attempts=attempts) == {Kind.INCONSISTENT}


def test_what_nobody_put() -> None:
    strange = [*got(*range(8)), Got(place(8), message("p1", 5))]
    assert kinds(reader(strange)) == {Kind.PHANTOM}
    mislabelled = [*got(*range(7)), Got(place(7), LOG[7], ("p1", 4))]
    assert kinds(reader(mislabelled)) == {Kind.PHANTOM}
    elsewhere = [*got(*range(7)), Got(Place("other", 0, 7), LOG[7])]
    assert kinds(reader(elsewhere)) == {Kind.PHANTOM}


def test_an_acknowledgement_of_what_was_not_kept() -> None:
    attempts = [*sent(), Sent(message("p1", 5), 90, 95)]
    found = check(attempts, FINALS, [])
    assert [each.kind for each in found] == [Kind.UNFINISHED]


def test_everything_after_subscribing_and_nothing_before() -> None:
    late = replace(reader(got(4, 5, 6, 7)), subscribed={TOPIC: Subscribing(46, 48)})
    assert kinds(late) == set()
    assert kinds(replace(late, lives=[got(3, 4, 5, 6, 7)])) == {Kind.EARLY}
    assert kinds(replace(late, lives=[got(5, 6, 7)])) == {Kind.LOST}


def test_what_was_put_while_subscribing_may_be_got_without_gaps() -> None:
    """3 and 5 are p2's second and third message, put while somebody subscribed."""
    late = replace(reader(got(3, 4, 5, 6, 7)), subscribed={TOPIC: Subscribing(38, 68)})
    assert kinds(late) == set()
    assert kinds(replace(late, lives=[got(4, 6, 7)])) == set()
    assert kinds(replace(late, lives=[got(3, 4, 6, 7)])) == {Kind.LOST}


def test_at_most_once_takes_one_message_a_life() -> None:
    assert kinds(reader(got(0, 2), got(3, 4, 5, 7), promise=Promise.AT_MOST_ONCE)) == set()
    assert kinds(reader(got(0, 3), got(4, 7), promise=Promise.AT_MOST_ONCE)) == {Kind.LOST}
    again = reader(got(0, 1, 2), got(2, 3, 4, 5, 6, 7), promise=Promise.AT_MOST_ONCE)
    assert kinds(again) == {Kind.REPEATED}


def test_at_least_once_repeats_the_last_of_a_life_only() -> None:
    def lives(*each: list[Got]) -> Reader:
        return reader(*each, promise=Promise.AT_LEAST_ONCE)

    assert kinds(lives(got(0, 1, 2), got(2), [], got(2, 3, 4, 5, 6, 7))) == set()
    assert kinds(lives(got(0, 1, 2), got(1, 2, 3, 4, 5, 6, 7))) == {Kind.DISORDER}
    assert kinds(lives(got(0, 1, 2), got(2, 2, 3, 4, 5, 6, 7))) == {Kind.REPEATED}
    assert kinds(lives(got(0, 1, 2), got(3, 4, 2, 5, 6, 7))) == {Kind.DISORDER}


def test_copies_are_somewhere_else() -> None:
    copies = [Got(Place("copies", 0, 2 * offset), each) for offset, each in enumerate(LOG)]
    assert kinds(replace(reader(copies), is_of_copies=True)) == set()
    assert kinds(replace(reader(copies[1:]), is_of_copies=True)) == {Kind.LOST}
    doubled = [*copies, Got(Place("copies", 0, 20), LOG[7])]
    assert kinds(replace(reader(doubled), is_of_copies=True)) == {Kind.REPEATED}


def test_the_summary_counts() -> None:
    found = [Anomaly(Kind.LOST, "s1", f"{number}") for number in range(20)]
    assert summary(found, each_max=2).splitlines() == ["20 × lost", "lost, s1: 0", "lost, s1: 1"]


def test_a_torn_record_is_none(tmp_path: Path) -> None:
    whole = [encode({"number": number}) for number in range(3)]
    for end in range(len(whole[2])):
        path_of(tmp_path, 1).write_bytes(whole[0] + whole[1] + whole[2][:end])
        assert list(read_journals(tmp_path).records) == [{"number": 0}, {"number": 1}]


def test_journals_are_read_while_they_grow(tmp_path: Path) -> None:
    first = Journal(tmp_path, 1)
    first.append({"number": 0})
    journals = read_journals(tmp_path)
    first.append({"number": 1}, durable=True)
    Journal(tmp_path, 2).append({"number": 2})
    journals.read()
    assert journals.lives == [[{"number": 0}, {"number": 1}], [{"number": 2}]]
