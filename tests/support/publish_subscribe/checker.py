"""What publishers were told and what subscribers got, and whether each message came once and in order. Pure.

A message is known by its publisher, its topic and its number there; publishers number from 1 in each topic.
Subscribers live many times: what one got is a list per life, in the order in which it was got. Times are
numbers that only need to grow, the same for all.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class MessageId(NamedTuple):
    publisher: str
    topic: str
    seq: int

    @property
    def value(self) -> str:
        """The text of the message, from which its id can be read again."""
        return f"{self.publisher} {self.topic} {self.seq}"

    @classmethod
    def of(cls, value: str) -> MessageId:
        publisher, topic, seq = value.split(" ")
        return cls(publisher, topic, int(seq))


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


class Sent(NamedTuple):
    """One attempt to put a message."""

    message: MessageId
    began: float
    ended: float | None = None
    """When it was acknowledged."""
    place: Place | None = None
    """Where, if that was said."""


class Got(NamedTuple):
    place: Place
    message: MessageId
    """Of its value."""
    told: tuple[str | None, int | None] | None = None
    """Publisher and number as the subscriber was told them, if it was."""


class Promise(enum.Enum):
    EXACTLY_ONCE = "exactly once"
    AT_MOST_ONCE = "at most once"
    """A life that ends may take one message with it."""
    AT_LEAST_ONCE = "at least once"
    """The last message of a life may come again."""


class Subscribing(NamedTuple):
    """A message put before `began` is not got, one put after `ended` is, and one in between may be."""

    began: float
    ended: float


@dataclass
class Reader:
    name: str
    promise: Promise
    subscribed: Mapping[str, Subscribing]
    """By topic of the messages."""
    lives: list[list[Got]] = field(default_factory=list)
    is_of_copies: bool = False
    """It reads what somebody else got and put again elsewhere: places are not those of the publishers."""


class Kind(enum.Enum):
    LOST = "lost"
    REPEATED = "repeated"
    DISORDER = "disorder"
    PHANTOM = "phantom"
    EARLY = "put before the subscription"
    INCONSISTENT = "inconsistent place"
    UNFINISHED = "unfinished"


class Anomaly(NamedTuple):
    kind: Kind
    who: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value}, {self.who}: {self.text}"


def check(
    sent: Iterable[Sent], finals: Mapping[tuple[str, str], int], readers: Iterable[Reader]
) -> list[Anomaly]:
    """All that breaks a promise. `finals`: by publisher and topic, the last number that was put for good."""
    attempts, everybody = list(sent), list(readers)
    outcome = _Outcome(attempts, finals)
    anomalies = list(_check_publishers(attempts, finals))
    anomalies += _check_places(attempts, everybody)
    for reader in everybody:
        anomalies += _check_positions(reader)
        anomalies += _ReaderChecker(reader, outcome).check()
    return anomalies


def summary(anomalies: Iterable[Anomaly], each_max: int = 8) -> str:
    """How many of each kind, and the first of them."""
    found = list(anomalies)
    lines = [f"{count} × {kind.value}" for kind, count in Counter(each.kind for each in found).items()]
    for kind in Kind:
        lines += [str(each) for each in found if each.kind is kind][:each_max]
    return "\n".join(lines)


class _Outcome:
    """Of all attempts to put: when each message was first tried and first acknowledged."""

    def __init__(self, attempts: list[Sent], finals: Mapping[tuple[str, str], int]) -> None:
        self.finals = finals
        self.began: dict[MessageId, float] = {}
        self.ended: dict[MessageId, float] = {}
        for each in attempts:
            _keep_least(self.began, each.message, each.began)
            if each.ended is not None:
                _keep_least(self.ended, each.message, each.ended)


def _keep_least(times: dict[MessageId, float], message: MessageId, time: float) -> None:
    times[message] = min(times.get(message, time), time)


def _check_publishers(attempts: list[Sent], finals: Mapping[tuple[str, str], int]) -> Iterator[Anomaly]:
    """What was acknowledged is among what was put for good, and nobody was told that of two places."""
    newest: dict[tuple[str, str], int] = defaultdict(int)
    places: dict[MessageId, set[Place]] = defaultdict(set)
    for each in attempts:
        flow = each.message[:2]
        if each.ended is not None:
            newest[flow] = max(newest[flow], each.message.seq)
        if each.place is not None:
            places[each.message].add(each.place)
    for flow, seq in newest.items():
        if finals.get(flow, 0) < seq:
            text = f"{seq} in {flow[1]} was acknowledged, the last put is {finals.get(flow)}"
            yield Anomaly(Kind.UNFINISHED, flow[0], text)
    for message, told in places.items():
        if len(told) > 1:
            text = f"{message.value!r} was acknowledged at {sorted(told)}"
            yield Anomaly(Kind.INCONSISTENT, message.publisher, text)


def _check_places(attempts: list[Sent], readers: list[Reader]) -> Iterator[Anomaly]:
    """Everybody is told the same about a place, so all got the messages of a topic in one order."""
    values: dict[Place, dict[str, MessageId]] = defaultdict(dict)
    for each in attempts:
        if each.place is not None:
            values[each.place][each.message.publisher] = each.message
    for reader in readers:
        for got in (got for life in reader.lives for got in life):
            values[got.place][reader.name] = got.message
    for place, told in values.items():
        if len(set(told.values())) > 1:
            texts = ", ".join(f"{who}: {message.value!r}" for who, message in sorted(told.items()))
            yield Anomaly(Kind.INCONSISTENT, f"{place}", texts)


def _check_positions(reader: Reader) -> Iterator[Anomaly]:
    """Within a partition, positions go forward through all lives.

    At least once, a message may come again as long as nobody knows that its life went on after it: the last
    one of a life, in any later one, before another of its partition.
    """
    highest: dict[tuple[str, int], int] = {}
    unsettled: set[Place] = set()
    for number, life in enumerate(reader.lives, 1):
        for got in life:
            flow = got.place[:2]
            before = highest.get(flow, -1)
            highest[flow] = max(before, got.place.offset)
            if got.place.offset > before or got.place in unsettled:
                unsettled -= {place for place in unsettled if place[:2] == flow}
                continue
            kind = Kind.REPEATED if got.place.offset == before else Kind.DISORDER
            yield Anomaly(kind, reader.name, f"life {number} got {got.place} after offset {before}")
        if life and reader.promise is Promise.AT_LEAST_ONCE:
            unsettled.add(life[-1].place)


class _ReaderChecker:
    """The messages themselves, wherever they were stored."""

    def __init__(self, reader: Reader, outcome: _Outcome) -> None:
        self._reader = reader
        self._outcome = outcome
        self._places: dict[MessageId, list[Place]] = defaultdict(list)
        self._order: dict[tuple[str, str], list[int]] = defaultdict(list)
        for life in reader.lives:
            for got in life:
                places = self._places[got.message]
                if got.place not in places:  # what came again from the same place is judged by positions
                    places.append(got.place)
                    self._order[got.message[:2]].append(got.message.seq)

    def check(self) -> Iterator[Anomaly]:
        yield from self._check_labels()
        missing = 0
        for flow, last in sorted(self._outcome.finals.items()):
            if flow[1] in self._reader.subscribed:
                lost = list(self._check_flow(flow, last))
                missing += len([each for each in lost if each.kind is Kind.LOST])
                at_most = self._reader.promise is Promise.AT_MOST_ONCE
                yield from (each for each in lost if each.kind is not Kind.LOST or not at_most)
        if self._reader.promise is Promise.AT_MOST_ONCE and missing > len(self._reader.lives):
            text = f"{missing} messages in {len(self._reader.lives)} lives"
            yield Anomaly(Kind.LOST, self._reader.name, text)

    def _check_labels(self) -> Iterator[Anomaly]:
        name = self._reader.name
        for got in (got for life in self._reader.lives for got in life):
            message = got.message
            last = self._outcome.finals.get((message.publisher, message.topic), 0)
            if message not in self._outcome.began or message.seq > last:
                yield Anomaly(Kind.PHANTOM, name, f"{message.value!r} at {got.place} was never put")
            elif message.topic not in self._reader.subscribed:
                yield Anomaly(Kind.PHANTOM, name, f"{message.value!r} is of no topic that it subscribed to")
            elif not self._reader.is_of_copies and got.place.topic != message.topic:
                yield Anomaly(Kind.PHANTOM, name, f"{message.value!r} is in {got.place.topic}")
            elif got.told is not None and got.told != (message.publisher, message.seq):
                yield Anomaly(Kind.PHANTOM, name, f"{message.value!r} was said to be {got.told}")

    def _check_flow(self, flow: tuple[str, str], last: int) -> Iterator[Anomaly]:
        """What one publisher put into one topic."""
        name, (publisher, topic) = self._reader.name, flow
        order = self._order.get(flow, [])
        newest = 0
        for seq in order:
            if seq < newest and len(self._places[MessageId(*flow, seq)]) == 1:
                yield Anomaly(Kind.DISORDER, name, f"{publisher} {topic}: {seq} after {newest}")
            newest = max(newest, seq)
        for seq in sorted(set(order)):
            places = self._places[MessageId(*flow, seq)]
            if len(places) > 1:
                yield Anomaly(Kind.REPEATED, name, f"{publisher} {topic} {seq} is at {places}")
        first_due = self._first_due(flow, last)
        first = min([first_due, *order])
        for seq in sorted(set(range(first, last + 1)) - set(order)):
            yield Anomaly(Kind.LOST, name, f"{publisher} {topic} {seq}, of {first} to {last}")
        began = self._reader.subscribed[topic].began
        for seq in sorted(set(order)):
            ended = self._outcome.ended.get(MessageId(*flow, seq))
            if ended is not None and ended < began:
                yield Anomaly(Kind.EARLY, name, f"{publisher} {topic} {seq}")

    def _first_due(self, flow: tuple[str, str], last: int) -> int:
        """The first number that was put after the subscription; one more than the last if none was."""
        subscribed = self._reader.subscribed[flow[1]].ended
        for seq in range(1, last + 1):
            if self._outcome.began.get(MessageId(*flow, seq), subscribed) > subscribed:
                return seq
        return last + 1
