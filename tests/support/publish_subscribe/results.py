"""From the journals of publisher and subscriber processes to what the checker judges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tests.support.publish_subscribe.checker import Got, MessageId, Place, Promise, Reader, Sent, Subscribing

if TYPE_CHECKING:
    from tests.support.publish_subscribe.journal import Journals, Record

PROMISES = {
    "positions": Promise.EXACTLY_ONCE,
    "get": Promise.AT_MOST_ONCE,
    "receive": Promise.AT_LEAST_ONCE,
    "copy": Promise.EXACTLY_ONCE,
}


def finals_of(publishers: Mapping[str, Journals]) -> dict[tuple[str, str], int]:
    """By publisher and topic, the last number; every publisher has come to its end."""
    found: dict[tuple[str, str], int] = {}
    for name, journals in publishers.items():
        journals.read()
        final = journals.lives[-1][-1]
        assert final["kind"] == "final", f"{name} did not come to its end: {final}"
        found |= {(name, topic): last for topic, last in final["last"].items()}
    return found


def sent_of(journals: Journals) -> Iterator[Sent]:
    """Each message when it was first begun, and each acknowledgement of it."""
    journals.read()
    began: dict[MessageId, float] = {}
    for record in journals.records:
        if record["kind"] == "begun":
            message = MessageId(*record["message"])
            began[message] = min(record["at"], began.get(message, record["at"]))
    yield from (Sent(message, at) for message, at in began.items())
    for record in journals.records:
        if record["kind"] == "done":
            message = MessageId(*record["message"])
            is_known = record["offset"] >= 0
            place = Place(message.topic, record["partition"], record["offset"]) if is_known else None
            yield Sent(message, began[message], record["at"], place)


def reader_of(name: str, style: str, journals: Journals) -> Reader:
    journals.read()
    lives = [[got_of(record) for record in life if record["kind"] == "got"] for life in journals.lives]
    return Reader(name, PROMISES[style], subscribed_of(journals), lives)


def copies_of(name: str, journals: Journals, copier: Journals) -> Reader:
    """The reader of the topic into which somebody copies, judged by what the copier subscribed to."""
    reader = reader_of(name, "positions", journals)
    reader.subscribed, reader.is_of_copies = subscribed_of(copier), True
    reader.lives = [[got._replace(told=None) for got in life] for life in reader.lives]
    return reader


def subscribed_of(journals: Journals) -> dict[str, Subscribing]:
    journals.read()
    began = _first_times(journals.records, "subscribing")
    ended = _first_times(journals.records, "subscribed")
    return {topic: Subscribing(began[topic], at) for topic, at in ended.items()}


def _first_times(records: Iterable[Record], kind: str) -> dict[str, float]:
    times: dict[str, float] = {}
    for record in records:
        if record["kind"] == kind:
            times[record["topic"]] = min(record["at"], times.get(record["topic"], record["at"]))
    return times


def got_of(record: Record) -> Got:
    place = Place(record["topic"], record["partition"], record["offset"])
    return Got(place, MessageId.of(record["value"]), (record["publisher"], record["seq"]))
