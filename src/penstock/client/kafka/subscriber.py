"""Delivering messages and moving positions.

The durable position is an offset of the group `penstock.subscriber.<id>`. Every write of it is a transaction
under the same id (see transactional.py), so a subscriber that was replaced can write none. Messages are
fetched by an assignment of the subscriber's own: there is no membership, and no session that could end.

Where positions are written decides what a crash does:

    get             before it returns: never again
    get, own        (with the application's positions) with the next call, by when the message's is stored
    receive         when the block ends: at least once
    transaction     together with the messages that it puts

A message whose position could not be written stays the next one. Only of a transaction it must be found out
first whether it happened.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.client.errors import (
    DataNotAvailableError,
    MessagesLostError,
    OutcomeUnknownError,
    SubscriberFencedError,
    TopicNotFoundError,
)
from penstock.client.kafka.durable_topics import ensure_topic
from penstock.client.kafka.group_offsets import end_offsets, forget_offsets, group_offsets
from penstock.client.kafka.raw.requests import READ_COMMITTED, READ_UNCOMMITTED, GroupOffset
from penstock.client.kafka.subscription_reader import SubscriptionReader
from penstock.client.kafka.transactional import Transactional
from penstock.client.pubsub.inbox import Lost
from penstock.client.pubsub.messages import Message, Outgoing, Partition, name_of, place
from penstock.client.pubsub.positions import Position, parse

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster

POLL_S: Final = 0.1
LOOK_S: Final = 10.0
"""How often it is asked whether topics have got more partitions."""
STABLE_PAUSE_S: Final = 0.02

Taken = list[tuple[Partition, Message]]


class KafkaSubscriber:
    def __init__(self, cluster: Cluster, name: str, own: dict[Partition, int] | None) -> None:
        self._cluster = cluster
        self._name = name
        self._me = secrets.token_hex(4)
        fenced = f"subscriber {name!r} was replaced by another one with this id: it can get no more"
        self._link = Transactional(
            cluster, name_of("subscriber", name), lambda: SubscriberFencedError(fenced)
        )
        self._own = own
        self._delivered: dict[Partition, int] = {}
        """Positions that the application stores, and that are written when it asks for more."""
        self._positions: dict[Partition, Position] = {}
        self._written_by: dict[Partition, str] = {}
        self._writes = 0
        self._is_unsure = False
        """Whether the last write may have happened or not."""
        self._undecided: set[Partition] = set()
        """Partitions of the messages in a transaction of which the same is true."""
        self._lock = threading.RLock()
        self._is_busy = False
        self._looked_at = float("-inf")
        self._reader = SubscriptionReader(cluster, self._link.name)
        try:
            self._link.insist(lambda _: self._read_positions(), f"subscriber {name!r} cannot be opened")
            self._look()
        except BaseException:
            self.close()
            raise

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topic, _ in self._positions}))

    def subscribe(self, topic: str) -> None:
        with self._using():
            positions = self._link.insist(
                lambda deadline: self._first_positions(topic, deadline),
                f"topic {topic!r} is not subscribed to",
            )
            self._write(positions)
            self._look()

    def unsubscribe(self, topic: str) -> None:
        with self._using():
            ending = {each: position for each, position in self._positions.items() if each[0] == topic}
            if not ending:
                return
            self._write(ending)  # nothing changes, but one that was replaced is told so
            self._link.insist(
                lambda _: forget_offsets(self._link.brokers, self._link.name, ending),
                f"the subscription to topic {topic!r} is not ended",
            )
            self._reader.stop(ending)
            self._reader.inbox.drop(lambda partition, _: partition in ending)
            for partition in ending:
                del self._positions[partition]
                self._delivered.pop(partition, None)
                self._written_by.pop(partition, None)

    def get(self, n: int, wait_s: float | None) -> list[Message]:
        with self._using():
            self.write_delivered()
            taken = self.collect(n, wait_s)
            with self._back_on_failure(taken):
                if self._own is None:
                    self._write(self._after(taken))
                else:
                    self._deliver({partition: message.position for partition, message in taken})
            return [message for _, message in taken]

    @contextmanager
    def receive(self, n: int, wait_s: float | None) -> Iterator[list[Message]]:
        with self._using():
            self.write_delivered()
            taken = self.collect(n, wait_s)
            with self._back_on_failure(taken):
                yield [message for _, message in taken]
                self._write(self._after(taken))

    @contextmanager
    def transaction(self) -> Iterator[KafkaTransaction]:
        with self._using():
            self.write_delivered()
            transaction = KafkaTransaction(self)
            with self._back_on_failure(transaction.taken):
                yield transaction
                if transaction.taken or transaction.outgoing:
                    self._commit(transaction)

    def _deliver(self, positions: Mapping[Partition, int]) -> None:
        """The application has them from here on, and goes on from them if it comes again."""
        assert self._own is not None
        self._own.update(positions)
        self._delivered.update(positions)

    def write_delivered(self) -> None:
        """The application asks for more, so it has stored what it was given."""
        if self._delivered:
            known = {each: at for each, at in self._delivered.items() if each in self._positions}
            self._write({each: self._positions[each].at(offset) for each, offset in known.items()})
            self._delivered.clear()

    def finish(self) -> None:
        with self._using():
            self.write_delivered()

    def close(self) -> None:
        with self._lock:
            self._reader.close()
            self._link.close()

    def collect(self, n: int, wait_s: float | None) -> Taken:
        """Up to `n` messages that are there; the first is waited for."""
        begun = time.monotonic()
        if begun - self._looked_at >= LOOK_S:
            self._look()
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
            if time.monotonic() - self._looked_at >= LOOK_S:
                self._look()
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
        if self._own is None:
            self._write({partition: self._positions[partition].at(lost.next)})
        else:
            self._deliver({partition: lost.next})
        self._reader.inbox.take()
        raise MessagesLostError(*partition, *lost)

    def _commit(self, transaction: KafkaTransaction) -> None:
        topics = {each.topic for each in transaction.outgoing}
        indexes = self._link.insist(
            lambda _: {topic: ensure_topic(self._cluster, topic) for topic in topics},
            f"topics {', '.join(sorted(topics))} cannot be used",
        )
        placed = [(place(each, indexes[each.topic]), each) for each in transaction.outgoing]
        positions = self._after(transaction.taken)
        if not positions:
            # Some position goes with the messages, to find out by it whether the transaction happened.
            if not self._positions:
                raise RuntimeError("a subscriber without subscriptions has no transactions: use a Publisher")
            partition = min(self._positions)
            positions = {partition: self._positions[partition]}
        try:
            self._write(positions, placed)
        except OutcomeUnknownError:
            self._undecided = {partition for partition, _ in transaction.taken}
            raise

    def _after(self, taken: Taken) -> dict[Partition, Position]:
        """Where the partitions go on after the messages."""
        moved = {partition: message.position for partition, message in taken}
        return {partition: self._positions[partition].at(offset) for partition, offset in moved.items()}

    def _write(
        self,
        positions: Mapping[Partition, Position],
        outgoing: Sequence[tuple[Partition, Outgoing]] = (),
    ) -> None:
        """Makes the positions durable, and stores the messages together with them."""
        if not positions:
            return
        self._writes += 1
        number = self._writes
        targets = {each: position.written(self._me, number) for each, position in positions.items()}
        offsets = {each: GroupOffset(target.offset, target.metadata()) for each, target in targets.items()}

        def work(deadline: float) -> None:
            if self._is_unsure:
                self._read_positions()
                if any(self._positions.get(each) == target for each, target in targets.items()):
                    return  # what was tried before has happened
            self._is_unsure = True
            self._link.transact(outgoing, lambda _: offsets, deadline)
            self._is_unsure = False
            self._positions.update(targets)

        what = f"the position of subscriber {self._name!r} is"
        self._link.insist(work, f"{what} not written", f"{what} written or not, which is not known")

    def _read_positions(self) -> None:
        found = {}
        for partition, each in group_offsets(self._link.brokers, self._link.name).items():
            position = parse(each.offset, each.metadata)
            if position is not None:
                found[partition] = position
        for partition, position in found.items():
            if position.by not in (self._me, self._written_by.setdefault(partition, position.by)):
                raise self._link.fence()
        self._positions = found
        self._is_unsure = False

    def _first_positions(self, topic: str, deadline: float) -> dict[Partition, Position]:
        """Where a subscription begins; nothing if there is one already.

        That is the end of the log, once everything before it is decided: what is committed later than that
        stands behind it.
        """
        indexes = ensure_topic(self._cluster, topic)
        if any(subscribed == topic for subscribed, _ in self._positions):
            return {}
        partitions = [(topic, index) for index in indexes]
        ends = end_offsets(self._link.brokers, partitions, READ_UNCOMMITTED)
        while True:
            stable = end_offsets(self._link.brokers, partitions, READ_COMMITTED)
            if all(stable[each] >= end for each, end in ends.items()):
                return {each: Position(end, since=end) for each, end in ends.items()}
            if time.monotonic() >= deadline:
                raise DataNotAvailableError(
                    f"topic {topic!r} has a transaction that is open for {self._cluster.timeout_s:g} s"
                )
            time.sleep(STABLE_PAUSE_S)

    def _look(self) -> None:
        """Which partitions the topics have now; those that are new are read from their beginning."""
        metadata = self._cluster.ask(
            self._cluster.metadata, f"the topics of subscriber {self._name!r} are known"
        )
        self._looked_at = time.monotonic()
        there = {
            (topic, index)
            for topic in self.topics
            if topic in metadata.topics
            for index in metadata.topics[topic].partitions
        }
        self._write({each: Position(0) for each in there - self._positions.keys()})
        gone = self._reader.partitions - there
        self._reader.stop(gone)
        self._reader.inbox.drop(lambda partition, _: partition in gone)
        own = self._own or {}
        self._reader.start(
            {each: self._positions[each].start(own.get(each)) for each in there - self._reader.partitions}
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
        self._link.insist(
            lambda _: self._read_positions(), f"the position of subscriber {self._name!r} is not known"
        )
        undecided, self._undecided = self._undecided, set()
        self._reader.inbox.drop(
            lambda partition, item: (
                partition in undecided
                and isinstance(item, Message)
                and item.offset < self._positions[partition].offset
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

    def __init__(self, subscriber: KafkaSubscriber) -> None:
        self._subscriber = subscriber
        self.taken: Taken = []
        self.outgoing: list[Outgoing] = []

    def get(self, wait_s: float | None) -> Message | None:
        found = self._subscriber.collect(1, wait_s)
        self.taken += found
        return found[0][1] if found else None

    def put(self, message: Outgoing) -> None:
        self.outgoing.append(message)
