"""Clients that use transactions on a failing cluster, and write down what they were told.

Partition `n` of the history is partition `n % PARTITIONS` of the topic `TOPICS[n // PARTITIONS]`.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.gateway.kafka.transactions import ClusterTransactions
from tests.support.history import Outcome
from tests.support.transaction_history import Seen, Transaction, TransactionHistory, Written
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

LEFT, RIGHT, COPIED = TOPICS = ("left", "right", "copied")
PARTITIONS = 2
SETTLE_S_MAX = 60.0 * PATIENCE
END_S_MAX = 20.0
TRANSACTION_TIMEOUT_MS = 10_000
VALUES_MAX = 4
ABORTED, ABANDONED = 0.25, 0.15
"""The shares of transactions that are not committed on purpose."""
COPIER = "copier"


def place(topic: str, partition: int) -> int:
    return TOPICS.index(topic) * PARTITIONS + partition


def owner(bootstrap: str, transactional_id: str) -> Producer:
    """The owner of the id from now on: whatever was open is decided when this returns."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(SETTLE_S_MAX)
    return producer


def consumer_of(bootstrap: str, group: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )


def is_end(message: Message) -> bool:
    """Not a message: there is nothing more at this offset, at the moment."""
    return message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF


class Client(threading.Thread, ABC):
    """Goes on until it is told to stop. What it did not expect is kept in `complaint`."""

    def __init__(self, name: str, bootstrap: str, history: TransactionHistory, stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)  # librdkafka may keep one for ever: see Load.finish
        self.bootstrap, self.history, self.stopped = bootstrap, history, stop
        self.complaint: str | None = None
        self.ended = 0
        self.noted_at = time.monotonic()
        self.journal: list[str] = []
        """What it did, for whoever has to explain an anomaly."""

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self.work()
        except BaseException as error:
            self.complaint = f"{self.name}: {error!r}"
            raise

    def note(self, text: str) -> None:
        self.noted_at = time.monotonic()
        self.journal.append(f"{self.noted_at:.3f} {self.name} {text}")

    @abstractmethod
    def work(self) -> None:
        """As a new client, until something goes wrong or it is told to stop."""


class Writer(Client):
    """Transactions over two topics: most are committed, some aborted, some abandoned to the next owner."""

    def __init__(
        self, name: str, bootstrap: str, history: TransactionHistory, stop: threading.Event, seed: int
    ) -> None:
        super().__init__(name, bootstrap, history, stop)
        self._chance = random.Random(f"{seed}-{self.name}")
        self._number = 0

    def work(self) -> None:
        producer = owner(self.bootstrap, self.name)
        while not self.stopped.is_set():
            try:
                is_abandoned = self._transact(producer)
            except KafkaException:
                return  # the next owner decides what was open
            if is_abandoned:
                self._come_back(producer)
                return

    def _transact(self, producer: Producer) -> bool:
        transaction = Transaction(self.name)
        self.history.transactions.append(transaction)
        producer.begin_transaction()
        for topic in (LEFT, RIGHT):
            for _ in range(self._chance.randint(1, VALUES_MAX)):
                self._write(producer, transaction, topic)
        producer.flush(END_S_MAX)
        chance = self._chance.random()
        if chance < ABORTED:
            producer.abort_transaction(END_S_MAX)
        elif chance < ABORTED + ABANDONED:
            return True
        else:
            transaction.commit_asked_at = time.monotonic()
            transaction.outcome = Outcome.UNKNOWN
            producer.commit_transaction(END_S_MAX)
            transaction.outcome = Outcome.OK
            self.ended += 1
        return False

    def _write(self, producer: Producer, transaction: Transaction, topic: str) -> None:
        self._number += 1
        value = f"{self.name}:{self._number}"
        partition = self._chance.randrange(PARTITIONS)
        index = len(transaction.writes)
        written = Written(place(topic, partition), value)
        transaction.writes.append(written)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                transaction.writes[index] = written._replace(offset=message.offset())

        producer.produce(topic, value, partition=partition, on_delivery=delivered)

    def _come_back(self, zombie: Producer) -> None:
        """A producer that was away while another took over must not get its transaction through."""
        owner(self.bootstrap, self.name)
        try:
            zombie.commit_transaction(END_S_MAX)
        except KafkaException:
            return
        raise AssertionError("a fenced producer has committed")


class Copier(Client):
    """Consume, process, produce: what is committed to LEFT goes to COPIED, with the position."""

    def work(self) -> None:
        self.note("wants the id")
        producer = owner(self.bootstrap, self.name)
        self.note("owns the id")
        with closing(consumer_of(self.bootstrap, self.name)) as consumer:
            # From the committed positions, which are decided: the new owner has seen to that.
            consumer.assign([TopicPartition(LEFT, index) for index in range(PARTITIONS)])
            try:
                while not self.stopped.is_set():
                    self._copy_some(producer, consumer)
            except KafkaException as error:
                self.note(str(error))

    def _copy_some(self, producer: Producer, consumer: Consumer) -> None:
        polled = [each for each in consumer.consume(20, timeout=0.2) if not is_end(each)]
        for message in polled:
            if message.error() is not None:
                raise KafkaException(message.error())
        if polled:
            self._copy(producer, consumer, polled)

    def _copy(self, producer: Producer, consumer: Consumer, messages: Sequence[Message]) -> None:
        producer.begin_transaction()
        positions = {}
        for message in messages:
            producer.produce(COPIED, message.value(), partition=message.partition())
            positions[message.partition()] = message.offset() + 1
        self.note(f"copies {[message.value().decode() for message in messages]} up to {positions}")
        producer.send_offsets_to_transaction(
            [TopicPartition(LEFT, index, offset) for index, offset in positions.items()],
            consumer.consumer_group_metadata(),
            END_S_MAX,
        )
        self.note("commits")
        producer.commit_transaction(END_S_MAX)
        self.note("has committed")
        self.ended += 1


class Reader(Client):
    """Follows everything that is committed, from the start, through all faults."""

    def work(self) -> None:
        with closing(consumer_of(self.bootstrap, "nobody")) as consumer:
            consumer.assign(
                [TopicPartition(topic, index, 0) for topic in TOPICS for index in range(PARTITIONS)]
            )
            while not self.stopped.is_set():
                self.take(consumer.consume(200, timeout=0.2))

    def take(self, messages: Sequence[Message]) -> None:
        at = time.monotonic()
        for message in messages:
            if message.error() is None:
                value = message.value().decode()
                where = place(message.topic(), message.partition())
                self.history.seen.append(Seen(self.name, where, ((message.offset(), value),), at))
                self.ended += 1


def what_is_open(bootstrap: str) -> str:
    """As partitions and coordinators tell it, for whoever has to explain why nothing goes on."""

    async def ask() -> list[object]:
        cluster = ClusterTransactions(bootstrap, "test")
        try:
            return [*await cluster.known(), *await cluster.open()]
        finally:
            cluster.close()

    return "\n".join(map(str, asyncio.run(ask())))


def read_to_the_end(reader: Reader) -> None:
    """Everything that is committed; there must be nothing open any more."""
    partitions = [TopicPartition(topic, index, 0) for topic in TOPICS for index in range(PARTITIONS)]
    # To a reader of committed data the log ends where the first open transaction begins.
    with closing(consumer_of(reader.bootstrap, "nobody", "read_uncommitted")) as anybody:
        ends = [anybody.get_watermark_offsets(each, timeout=SETTLE_S_MAX)[1] for each in partitions]
    missing = {(each.topic, each.partition): end for each, end in zip(partitions, ends, strict=True) if end}
    with closing(consumer_of(reader.bootstrap, "nobody")) as consumer:
        consumer.assign(partitions)
        deadline = time.monotonic() + SETTLE_S_MAX
        while missing:
            if time.monotonic() > deadline:
                raise AssertionError(f"before {missing} it hangs\n{what_is_open(reader.bootstrap)}")
            messages = consumer.consume(500, timeout=0.2)
            reader.take(messages)
            for message in filter(is_end, messages):
                where = message.topic(), message.partition()
                if message.offset() >= missing.get(where, 0):
                    missing.pop(where, None)
    reader.history.complete.add(reader.name)
