"""What publishers and subscribers decide: numbers, positions, who is next."""

from __future__ import annotations

import random

import pytest

from penstock.client.errors import InvalidMessageError, SequenceGapError
from penstock.client.pubsub.inbox import Inbox
from penstock.client.pubsub.messages import (
    Message,
    Outgoing,
    Put,
    check_id,
    check_topic,
    headers_of,
    name_of,
    origin_of,
    place,
)
from penstock.client.pubsub.numbering import RECENT_MAX, Numbering, Plan, check_seq, newest
from penstock.client.pubsub.positions import Position, parse
from penstock.groups.marks import is_durable, is_position


def test_numbers_begin_at_one_and_go_on() -> None:
    numbering = Numbering(0)
    assert numbering.plan("t", None, 1) == Plan(1, 0)
    numbering = numbering.after([10, 11], "me")
    assert numbering.plan("t", None, 1) == Plan(3, 0)
    assert numbering.plan("t", 3, 1) == Plan(3, 0)


def test_a_repeated_number_is_stored_already() -> None:
    numbering = Numbering(4).after([10], "me").after([12], "me")
    assert numbering.plan("t", 1, 1) == Plan(1, 1)
    assert numbering.puts(1, 2) == [Put(1, 10, 4), Put(2, 12, 4)]


def test_some_of_several_may_be_stored() -> None:
    numbering = Numbering(0).after([10, 11], "me")
    assert numbering.plan("t", 2, 3) == Plan(2, 1)
    assert numbering.plan("t", 1, 2) == Plan(1, 2)


def test_a_gap_is_refused_with_the_number_that_is_next() -> None:
    with pytest.raises(SequenceGapError, match=r"'t'.*expected 2") as caught:
        Numbering(0).after([5], "me").plan("t", 3, 1)
    assert caught.value.expected == 2
    assert caught.value.seq == 3


def test_places_of_old_messages_are_forgotten() -> None:
    numbering = Numbering(0)
    for offset in range(0, 100, 2):
        numbering = numbering.after([offset], "me")
    assert len(numbering.recent) == RECENT_MAX
    assert numbering.puts(1, 1) == [Put(1, -1, 0)]
    assert numbering.puts(50, 1) == [Put(50, 98, 0)]


def test_numbers_survive_as_metadata() -> None:
    numbering = Numbering(3).after([7, 8, 9], "abcd")
    metadata = numbering.metadata()
    assert newest({3: metadata}, 0) == numbering
    assert is_durable(metadata)
    assert not is_position(metadata)
    assert (
        len(Numbering(0, 2**62, ((2**62, 2**62),) * RECENT_MAX, "a" * 8).metadata()) < 4096
    )  # Kafka's limit


def test_the_newest_number_of_all_partitions_counts() -> None:
    older, newer = Numbering(1, 4, (), "a"), Numbering(2, 9, (), "b")
    found = newest({0: None, 1: older.metadata(), 2: newer.metadata(), 3: "of somebody else"}, 0)
    assert found == newer
    assert newest({0: "", 1: None}, 5) == Numbering(5)


@pytest.mark.parametrize(
    ("seq", "error"),
    [(0, ValueError), (-1, ValueError), (2**63, ValueError), ("1", TypeError), (True, TypeError)],
)
def test_what_is_no_number(seq: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_seq(seq)


def test_a_position_survives_as_metadata() -> None:
    position = Position(17, since=5).at(20).written("abcd", 3)
    assert parse(20, position.metadata()) == position
    assert is_durable(position.metadata())
    assert is_position(position.metadata())


def test_offsets_set_by_hand_are_positions_and_others_are_none() -> None:
    assert parse(4, "") == Position(4)
    assert parse(4, None) == Position(4)
    assert parse(-1, Position(4).metadata()) is None
    assert parse(4, Numbering(0, 1).metadata()) is None
    assert parse(4, "penstock.subscription") == Position(4)
    assert parse(4, 'penstock.subscription {"from": "x", "by": 1, "n": null}') == Position(4)


def test_an_application_goes_on_from_its_own_position() -> None:
    position = Position(10, since=5)
    assert position.start(None) == 10
    assert position.start(12) == 12
    assert position.start(8) == 8  # a message was got and not stored
    assert position.start(2) == 5  # what was put before the subscription is none of its business


def test_topics_take_turns_and_partitions_within_them() -> None:
    inbox: Inbox[int] = Inbox()
    for number in range(4):
        inbox.add(("big", 0), number)
    inbox.add(("big", 1), 10)
    inbox.add(("small", 0), 20)
    taken = [inbox.take() for _ in range(len(inbox))]
    assert taken == [
        (("big", 0), 0),
        (("small", 0), 20),
        (("big", 1), 10),
        (("big", 0), 1),
        (("big", 0), 2),
        (("big", 0), 3),
    ]
    assert inbox.peek() is None
    with pytest.raises(LookupError):
        inbox.take()


def test_what_is_put_back_comes_first_and_in_order() -> None:
    inbox: Inbox[int] = Inbox()
    for number in range(3):
        inbox.add(("a", 0), number)
        inbox.add(("b", 0), 10 + number)
    taken = [inbox.take() for _ in range(5)]
    inbox.put_back(taken)
    assert len(inbox) == 6
    again = [inbox.take() for _ in range(6)]
    assert [item for partition, item in again if partition == ("a", 0)] == [0, 1, 2]
    assert [item for partition, item in again if partition == ("b", 0)] == [10, 11, 12]
    assert again[0] == taken[0]


def test_dropped_topics_leave_nothing_behind() -> None:
    inbox: Inbox[int] = Inbox()
    for partition in (("a", 0), ("a", 1), ("b", 0)):
        inbox.add(partition, 1)
        inbox.add(partition, 2)
    inbox.drop(lambda partition, item: partition[0] == "a" or item == 1)
    assert len(inbox) == 1
    assert inbox.take() == (("b", 0), 2)
    inbox.add(("a", 1), 3)
    assert inbox.take() == (("a", 1), 3)


@pytest.mark.parametrize("seed", range(20))
def test_the_inbox_keeps_the_order_of_partitions(seed: int) -> None:
    """Against the plain truth: each partition's items come as they were added, whatever is done."""
    chance = random.Random(seed)
    inbox: Inbox[int] = Inbox()
    partitions = [("a", 0), ("a", 1), ("b", 0)]
    added = dict.fromkeys(partitions, 0)
    seen: dict[tuple[str, int], list[int]] = {partition: [] for partition in partitions}
    held: list[tuple[tuple[str, int], int]] = []
    for _ in range(300):
        what = chance.random()
        if what < 0.4:
            partition = chance.choice(partitions)
            inbox.add(partition, added[partition])
            added[partition] += 1
        elif what < 0.8 and len(inbox):
            peeked = inbox.peek()
            held.append(inbox.take())
            assert held[-1] == peeked
        elif what < 0.9:
            inbox.put_back(held)
            held = []
        else:
            for partition, item in held:
                seen[partition].append(item)
            held = []
    inbox.put_back(held)
    while len(inbox):
        partition, item = inbox.take()
        seen[partition].append(item)
    assert seen == {partition: list(range(count)) for partition, count in added.items()}


@pytest.mark.parametrize("name", ["p1", "a b", "ä/😀%:*", "x" * 200])
def test_ids(name: str) -> None:
    assert check_id(name, "publisher") == name
    assert name_of("publisher", name).isascii()
    assert name_of("publisher", name).isprintable()


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800", "x" * 201])
def test_what_is_no_id(name: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        check_id(name, "publisher")


def test_an_id_is_a_text() -> None:
    with pytest.raises(TypeError, match="7"):
        check_id(7, "subscriber")  # type: ignore[arg-type]  # what is tested


def test_different_ids_have_different_names() -> None:
    ids = ["a", "A", "a ", " a", "a%20", "a%2520", "ä", "a\u0308", "%", "%25", "a.b", "a/b"]
    assert len({name_of("publisher", each) for each in ids}) == len(ids)
    assert name_of("publisher", "p-1.x") == "penstock.publisher.p-1.x"


def test_topics_have_names() -> None:
    with pytest.raises(ValueError, match="empty"):
        check_topic("")
    with pytest.raises(TypeError):
        check_topic(None)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidMessageError):
        check_topic("\ud800")


def test_headers_tell_who_put_a_message() -> None:
    assert origin_of(headers_of("pä", 12)) == ("pä", 12)
    assert origin_of(None) == (None, None)
    assert origin_of([("penstock-publisher", b"p")]) == (None, None)
    assert origin_of([("penstock-publisher", b"p"), ("penstock-seq", b"x")]) == (None, None)


def test_a_message_is_its_text_and_has_a_position() -> None:
    message = Message("t", 0, 4, "h\u00e9".encode())
    assert str(message) == message.text == "h\u00e9"
    assert message.position == 5


def test_the_same_key_goes_to_the_same_partition() -> None:
    placed = {place(Outgoing("t", b"", b"key"), [0, 1, 2, 3]) for _ in range(10)}
    assert len(placed) == 1
    assert {place(Outgoing("t", b""), [7]) for _ in range(10)} == {("t", 7)}
