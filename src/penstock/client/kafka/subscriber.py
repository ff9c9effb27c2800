"""Delivering messages and moving positions.

Messages are fetched by an assignment of the subscriber's own: there is no membership, and no session that
could end. Durable positions are a matter of subscriptions.py.

Where positions are written decides what a crash does:

    get             before it returns: never again
    get, own        (with the application's positions) with the next call, by when the message's is stored
    receive         when the block ends: at least once
    transaction     together with the messages that it puts

A message whose position could not be written stays the next one. Only of a transaction it must be found out
first whether it happened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.client.errors import (
    MessagesLostError,
    OutcomeUnknownError,
    TopicNotFoundError,
)
from penstock.client.kafka.durable_topics import ensure_topic
from penstock.client.kafka.group_offsets import end_offsets
from penstock.client.kafka.raw.requests import READ_COMMITTED
from penstock.client.kafka.subscription_reader import SubscriptionReader
from penstock.client.kafka.subscriptions import Subscriptions
from penstock.client.pubsub.inbox import Lost, Skipped
from penstock.client.pubsub.messages import Message, Outgoing, Partition, place
from penstock.client.pubsub.positions import Position

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster

POLL_S: Final = 0.1
LOOK_S: Final = 10.0
"""How often it is asked whether topics have got more partitions."""

Taken = list[tuple[Partition, Message]]


class KafkaSubscriber:
    def __init__(self, cluster: Cluster, name: str, own: dict[Partition, int] | None) -> None:
        self._cluster = cluster
        self._name = name
        self._subscriptions = Subscriptions(cluster, name)
        self._link = self._subscriptions.link
        self._own = own
        self._delivered: dict[Partition, int] = {}
        """Positions that the application stores, and that are written when it asks for more."""
        self._undecided: set[Partition] = set()
        """Partitions of the messages in a transaction that may have happened or not."""
        self._lock = threading.RLock()
        self._is_busy = False
        self._is_holding = False
        """Whether a transaction has messages that are neither in the inbox nor behind a position."""
        self._looked_at = float("-inf")
        self._reader = SubscriptionReader(cluster, self._link.name)
        try:
            self._subscriptions.read(f"subscriber {name!r} cannot be opened")
            self._look()
        except BaseException:
            self.close()
            raise

    @property
    def topics(self) -> tuple[str, ...]:
        return self._subscriptions.topics

    def subscribe(self, topic: str) -> None:
        with self._using():
            self._subscriptions.begin(topic)
            self._look()

    def unsubscribe(self, topic: str) -> None:
        with self._using():
            ending = self._subscriptions.of(topic)
            if not ending:
                return
            self._subscriptions.end(topic)
            self._reader.stop(ending)
            self._reader.inbox.drop(lambda partition, _: partition in ending)
            for positions in (self._delivered, self._own or {}):
                for partition in ending:
                    positions.pop(partition, None)

    def get(self, n: int, wait_s: float | None) -> list[Message]:
        with self._using():
            self._write_delivered()
            taken = self._collect(n, wait_s)
            with self._back_on_failure(taken):
                if self._own is None:
                    self._subscriptions.write(self._subscriptions.after(_offsets(taken)))
                else:
                    self._own.update(_offsets(taken))
                    self._delivered.update(_offsets(taken))
            return [message for _, message in taken]

    @contextmanager
    def receive(self, n: int, wait_s: float | None) -> Iterator[list[Message]]:
        with self._using():
            self._write_delivered()
            taken = self._collect(n, wait_s)
            with self._back_on_failure(taken):
                yield [message for _, message in taken]
                self._subscriptions.write(self._subscriptions.after(_offsets(taken)))
            self._passed(taken)

    @contextmanager
    def transaction(self) -> Iterator[KafkaTransaction]:
        with self._using():
            self._write_delivered()
            transaction = KafkaTransaction(self._hold)
            try:
                with self._back_on_failure(transaction.taken):
                    yield transaction
                    if transaction.taken or transaction.outgoing:
                        self._commit(transaction)
            finally:
                self._is_holding = False
            self._passed(transaction.taken)

    def _write_delivered(self) -> None:
        """The application asks for more, so it has stored what it was given."""
        self._subscriptions.write(self._subscriptions.after(self._delivered))
        self._delivered.clear()

    def finish(self) -> None:
        with self._using():
            self._write_delivered()

    def close(self) -> None:
        with self._lock:
            self._reader.close()
            self._link.close()

    def _hold(self, wait_s: float | None) -> Taken:
        taken = self._collect(1, wait_s)
        self._is_holding = self._is_holding or bool(taken)
        return taken

    def _collect(self, n: int, wait_s: float | None) -> Taken:
        """Up to `n` messages that are there; the first is waited for."""
        begun = time.monotonic()
        self._look_sometimes()
        self._reader.fetch(0)  # also with a full inbox: what comes from another topic has its turn
        taken: Taken = []
        with self._back_on_failure(taken):
            while len(taken) < n:
                found = self._reader.inbox.peek()
                if found is None:
                    if not (self._has_more() if taken else self._await_first(begun, wait_s)):
                        break
                    continue
                partition, item = found
                if isinstance(item, Lost):
                    if not taken:
                        self._report(partition, item)
                    break
                if isinstance(item, Skipped):
                    if taken:
                        break  # what comes before it has its position written first
                    if not self._is_holding:
                        self._pass(partition, item.next)
                    self._reader.inbox.take()
                    continue
                self._reader.inbox.take()
                taken.append((partition, item))
        return taken

    def _has_more(self) -> bool:
        self._reader.fetch(0)
        return len(self._reader.inbox) > 0

    def _await_first(self, begun: float, wait_s: float | None) -> bool:
        """Waits for messages; False when the time is over and there are none."""
        ends: dict[Partition, int] | None = None
        while not self._has_more():
            self._look_sometimes()
            late = time.monotonic() - begun - (self._cluster.timeout_s if wait_s is None else wait_s)
            if late >= 0 and ends is None:
                # An end that was asked for after the wait: everything that was put before is before it.
                ends = self._ends()
            if ends is not None and self._reader.has_reached(ends):
                if wait_s is not None:
                    return False
                begun, ends = time.monotonic(), None
            elif late >= self._cluster.timeout_s:
                raise self._cluster.silence(f"subscriber {self._name!r} gets nothing")
            self._reader.fetch(POLL_S if late >= 0 else min(POLL_S, -late))
        return True

    def _ends(self) -> dict[Partition, int]:
        what = f"it is not known whether subscriber {self._name!r} has messages"
        while wanted := self._reader.partitions:
            ask = partial(end_offsets, self._link.brokers, wanted, READ_COMMITTED)
            try:
                return self._cluster.ask(ask, what)
            except TopicNotFoundError:
                self._look()
                if self._reader.partitions == wanted:
                    raise
        return {}

    def _report(self, partition: Partition, lost: Lost) -> None:
        """Goes on after a gap, and says so once."""
        self._pass(partition, lost.next)
        self._reader.inbox.take()
        raise MessagesLostError(*partition, *lost)

    def _pass(self, partition: Partition, offset: int) -> None:
        """Moves the position to `offset`; there is no message before it."""
        if self._own is None:
            self._subscriptions.write(self._subscriptions.after({partition: offset}))
        else:
            self._own[partition] = self._delivered[partition] = offset

    def _commit(self, transaction: KafkaTransaction) -> None:
        topics = {each.topic for each in transaction.outgoing}
        indexes = self._link.insist(
            lambda _: {topic: ensure_topic(self._cluster, topic) for topic in topics},
            f"topics {', '.join(sorted(topics))} cannot be used",
        )
        placed = [(place(each, indexes[each.topic]), each) for each in transaction.outgoing]
        positions = self._subscriptions.after(_offsets(transaction.taken))
        if not positions:
            # Some position goes with the messages, to find out by it whether the transaction happened.
            positions = dict(sorted(self._subscriptions.positions.items())[:1])
            if not positions:
                raise RuntimeError("a subscriber without subscriptions has no transactions: use a Publisher")
        try:
            self._subscriptions.write(positions, placed)
        except OutcomeUnknownError:
            self._undecided = {partition for partition, _ in transaction.taken}
            raise

    def _passed(self, taken: Taken) -> None:
        """An application with positions of its own has them behind it, without another call."""
        if self._own is not None:
            self._own.update(_offsets(taken))

    def _look_sometimes(self) -> None:
        # Not in a transaction that has got something: a partition that was away would begin before it.
        if time.monotonic() - self._looked_at >= LOOK_S and not self._is_holding:
            self._look()

    def _look(self) -> None:
        """Which partitions the topics have now; those that are new are read from their beginning."""
        metadata = self._cluster.ask(
            self._cluster.metadata, f"the topics of subscriber {self._name!r} are not known"
        )
        self._looked_at = time.monotonic()
        there = {
            (topic, index)
            for topic in self.topics
            if topic in metadata.topics
            for index in metadata.topics[topic].partitions
        }
        new = there - self._subscriptions.positions.keys()
        self._subscriptions.write({each: Position(0) for each in new})
        gone = self._reader.partitions - there
        self._reader.stop(gone)
        self._reader.inbox.drop(lambda partition, _: partition in gone)
        own, positions = self._own or {}, self._subscriptions.positions
        self._reader.start(
            {each: positions[each].start(own.get(each)) for each in there - self._reader.partitions}
        )

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._lock:
            if self._is_busy:
                raise RuntimeError("this subscriber is in the middle of a receive or of a transaction")
            self._is_busy = True
            try:
                if self._undecided:
                    self._find_out()
                yield
            finally:
                self._is_busy = False

    def _find_out(self) -> None:
        """Messages of a transaction that has happened after all do not come again."""
        self._subscriptions.read(f"the position of subscriber {self._name!r} is not known")
        undecided, self._undecided = self._undecided, set()
        positions = self._subscriptions.positions
        self._reader.inbox.drop(
            lambda partition, item: (
                partition in undecided
                and isinstance(item, Message)
                and (partition not in positions or item.offset < positions[partition].offset)
            )
        )

    @contextmanager
    def _back_on_failure(self, taken: Taken) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._reader.inbox.put_back(taken)
            raise


class KafkaTransaction:
    """Only collects: nothing is sent before the end, so a transaction is never open for long."""

    def __init__(self, hold: Callable[[float | None], Taken]) -> None:
        self._hold = hold
        self.taken: Taken = []
        self.outgoing: list[Outgoing] = []

    def get(self, wait_s: float | None) -> Message | None:
        found = self._hold(wait_s)
        self.taken += found
        return found[0][1] if found else None

    def put(self, message: Outgoing) -> None:
        self.outgoing.append(message)


def _offsets(taken: Taken) -> dict[Partition, int]:
    """Where the partitions go on after the messages."""
    return {partition: message.position for partition, message in taken}
