"""A publisher process that can be killed at any moment and goes on where it was: `python -m` with a Task.

What it puts follows from its name: an endless list of messages for its topics. How it finds its place after a
crash is its style:

- `again` begins anywhere before the last message that it knows to be put, half of the time at the first one;
- `known` begins with the one that it does not know about;
- `ask` keeps nothing, and is told the next number when it asks with one that is too high. It puts several
  messages at once.

The journal says what was begun and acknowledged, when and where, and at the end the last number by topic.
Once told to stop, it puts something into each topic before it ends, so that every subscriber has a last
message to wait for that no crash took away.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from penstock import (
    DisconnectedServerError,
    InsufficientReplicasError,
    Publisher,
    PublisherFencedError,
    SequenceGapError,
)
from tests.support.publish_subscribe.checker import MessageId
from tests.support.publish_subscribe.journal import Journal, read_journals
from tests.support.publish_subscribe.task import FENCED, Task, insist

FAR_AHEAD = 1 << 40
AT_ONCE_MAX = 3


class Entry(NamedTuple):
    number: int
    message: MessageId


class PublisherProcess:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._before = read_journals(task.place)
        self._journal = Journal(task.place, task.life)
        self._publisher = insist(self._journal, lambda: Publisher(task.name, broker=task.bootstrap))

    def run(self) -> None:
        last = self._run_asking() if self._task.style == "ask" else self._run_list()
        self._publisher.close()
        self._journal.append({"kind": "final", "last": last})

    # One message of the list after the other, with its own number

    def _run_list(self) -> dict[str, int]:
        begun = max((each["number"] for each in self._before.records if each["kind"] == "begun"), default=0)
        done = {each["number"] for each in self._before.records if each["kind"] == "done"}
        known = 0
        while known + 1 in done:
            known += 1
        first = self._first(known)
        counts: Counter[str] = Counter()
        left = set(self._task.topics)
        for entry in self._list():
            if entry.number > begun and self._task.is_stopping:
                left.discard(entry.message.topic)
            if entry.number >= first:
                self._put(entry, is_new=entry.number not in done)
            counts[entry.message.topic] = entry.message.seq
            if not left:
                break
        return dict(counts)

    def _first(self, known: int) -> int:
        if self._task.style == "known":
            return known + 1
        chance = self._task.chance
        return chance.choice([1, chance.randint(1, known + 1)])

    def _list(self) -> Iterator[Entry]:
        chance = random.Random(f"{self._task.seed} {self._task.name}")
        counts: Counter[str] = Counter()
        for number in itertools.count(1):
            topic = chance.choice(self._task.topics)
            counts[topic] += 1
            yield Entry(number, MessageId(self._task.name, topic, counts[topic]))

    def _put(self, entry: Entry, *, is_new: bool) -> None:
        topic, seq = entry.message.topic, entry.message.seq
        if is_new:
            self._begin([entry.message], entry.number)
        put = insist(self._journal, lambda: self._publisher.put(topic, entry.message.value, seq=seq))
        assert put.seq == seq, f"{put} for {entry.message}"
        if is_new or put.offset >= 0:
            self._done([entry.message], put.partition, [put.offset], entry.number)

    # Several at once, after the last one that was accepted

    def _run_asking(self) -> dict[str, int]:
        chance = self._task.chance
        following: dict[str, int] = {}
        left = set(self._task.topics)
        while left:
            is_stopping = self._task.is_stopping
            topic = chance.choice(self._task.topics)
            if topic not in following:
                following[topic] = self._ask(topic)
            following[topic] = self._put_many(topic, following[topic], chance.randint(1, AT_ONCE_MAX))
            if is_stopping:
                left.discard(topic)
        return {topic: self._ask(topic) - 1 for topic in self._task.topics}

    def _put_many(self, topic: str, first: int, count: int) -> int:
        """The number after them, put or not."""
        messages = [MessageId(self._task.name, topic, first + each) for each in range(count)]
        self._begin(messages)
        try:
            puts = self._publisher.put_many(topic, [each.value for each in messages])
        except (DisconnectedServerError, InsufficientReplicasError) as error:
            self._journal.append({"kind": "away", "text": str(error)})
            return self._ask(topic)
        assert [put.seq for put in puts] == [each.seq for each in messages], f"{puts} for {messages}"
        self._done(messages, puts[0].partition, [put.offset for put in puts])
        return first + count

    def _ask(self, topic: str) -> int:
        try:
            put = insist(self._journal, lambda: self._publisher.put(topic, "too early", seq=FAR_AHEAD))
        except SequenceGapError as gap:
            return gap.expected
        raise AssertionError(f"a gap was accepted: {put}")

    # The journal

    def _begin(self, messages: list[MessageId], number: int = 0) -> None:
        for each in messages:
            self._journal.append({"kind": "begun", "number": number, "message": each, "at": time.monotonic()})

    def _done(self, messages: list[MessageId], partition: int, offsets: list[int], number: int = 0) -> None:
        now = time.monotonic()
        for each, offset in zip(messages, offsets, strict=True):
            told = {"message": each, "partition": partition, "offset": offset}
            self._journal.append({"kind": "done", "number": number, "at": now, **told})


def main() -> int:
    try:
        PublisherProcess(Task.of_this_process()).run()
    except PublisherFencedError as error:
        print(f"fenced: {error}", file=sys.stderr)
        return FENCED
    return 0


if __name__ == "__main__":
    sys.exit(main())
