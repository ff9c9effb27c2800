"""Clients that write and read while nodes fail, each in a thread, and record what they were told.

All of them write into one `Recorder`. A value is written once and says who sent it: `writer:number`.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.support.history import Commit, Committed, History, Outcome, Poll, Send
from tests.support.raw import ConnectionEndedError, RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.cluster import Cluster

CLIENT: dict[str, Any] = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "socket.timeout.ms": 10_000,
}
WRITER: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 2,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "message.timeout.ms": 600_000,
    "debug": "eos",  # why it begins an epoch: see Recorder.epochs
    "log_level": 7,
}
READER: dict[str, Any] = {
    "enable.auto.commit": False,
    "check.crcs": True,
    "fetch.wait.max.ms": 200,
    "fetch.error.backoff.ms": 50,
}
TRANSIENT = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)
"""What a consumer may be told, for its information, while it goes on trying."""
IN_FLIGHT_MAX = 2_000
PAUSE_S_MAX = 0.1
"""Of a writer, between what it writes at once."""
END_S_MAX = 60.0
RAW_S_MAX = 3.0
COMMIT_S = 0.1
"""From one commit of a member to its next."""


class Recorder:
    """A history under a lock."""

    def __init__(self) -> None:
        self.history = History()
        self.complaints: list[str] = []
        """What no client should ever be told."""
        self.epochs: list[str] = []
        """Why idempotent producers began new epochs, after which they may write something twice."""
        self._lock = threading.Lock()
        self._sends: list[list[Any]] = []

    def began(self, writer: str, partition: int, value: str) -> int:
        """A send is on its way; the handle to tell of its end."""
        with self._lock:
            self._sends.append([writer, partition, value, Outcome.UNKNOWN, None])
            return len(self._sends) - 1

    def ended(self, handle: int, outcome: Outcome, offset: int | None = None) -> None:
        with self._lock:
            self._sends[handle][3:] = [outcome, offset]

    def polled(self, reader: str, messages: Iterable[Message]) -> None:
        found: dict[int, list[tuple[int, str]]] = {}
        for message in messages:
            found.setdefault(_partition_of(message), []).append((_offset_of(message), _value_of(message)))
        with self._lock:
            for partition, records in found.items():
                self.history.polls.append(Poll(reader, partition, tuple(records)))

    def commit(self, commit: Commit) -> None:
        with self._lock:
            self.history.commits.append(commit)

    def committed(self, committed: Committed) -> None:
        with self._lock:
            self.history.committed.append(committed)

    def complete(self, reader: str) -> None:
        with self._lock:
            self.history.complete.add(reader)

    def complain(self, text: str) -> None:
        with self._lock:
            self.complaints.append(text)

    def finish(self) -> History:
        with self._lock:
            self.history.sends = [Send(*each) for each in self._sends]
            return self.history


class Client:
    """A thread that drives a client until it is told to stop."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, recorder: Recorder) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = range(partitions)
        self.recorder = recorder
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._drive, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()

    def join(self) -> None:
        self._thread.join(END_S_MAX)
        if self._thread.is_alive():
            assert self._thread.ident is not None
            frames = traceback.format_stack(sys._current_frames()[self._thread.ident])
            self.recorder.complain(f"{self.name} does not end: {self.state()}\n{''.join(frames[-1:])}")

    def _drive(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.recorder.complain(f"{self.name} ended with {error!r}")
            raise

    def run(self) -> None:
        raise NotImplementedError

    def state(self) -> str:
        """How far it is, for a complaint."""
        return ""


class Writer(Client):
    """An idempotent producer with patience: each of its messages must be acknowledged in the end.

    With `life_s` it is less patient: now and then it is thrown away with all that is on its way, as when a
    process dies, and another one begins.
    """

    def __init__(self, *args: Any, chance: random.Random, life_s: float | None = None) -> None:
        super().__init__(*args)
        self.acknowledged = 0
        self._chance = chance
        self._life_s = life_s
        self._in_flight = 0
        self._number = 0

    def run(self) -> None:
        lives = 0
        while not self.stopping.is_set():
            lives += 1
            self._live(f"{self.name}/{lives}" if self._life_s else self.name)

    def _live(self, name: str) -> None:
        own = {"bootstrap.servers": self.bootstrap, "logger": _logger(name, self.recorder)}
        producer = Producer({**CLIENT, **WRITER, **own})
        end = time.monotonic() + (self._chance.uniform(0.1, self._life_s) if self._life_s else float("inf"))
        self._in_flight = 0
        while not self.stopping.is_set() and time.monotonic() < end:
            if self._in_flight < IN_FLIGHT_MAX:
                # Now one by one, now many at once, which then travel in one batch or in several in flight.
                for _ in range(self._chance.choice((1, 1, 1, 5, 40))):
                    self._write(producer, name)
            _poll(producer, self._chance.uniform(0.001, PAUSE_S_MAX))
        if not self.stopping.is_set():
            producer.purge(in_queue=True, in_flight=True, blocking=False)
            producer.flush(1.0)
        elif producer.flush(END_S_MAX):
            self.recorder.complain(f"{name}: {self._in_flight} messages were never answered")

    def _write(self, producer: Producer, name: str) -> None:
        self._number += 1
        partition = self._chance.choice(self.partitions)
        value = f"{name}:{self._number}"
        handle = self.recorder.began(name, partition, value)
        self._in_flight += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._in_flight -= 1
            if error is None:
                self.acknowledged += 1
                self.recorder.ended(handle, Outcome.OK, message.offset())
            elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
                self.recorder.complain(f"{value}: {error}")

        producer.produce(self.topic, value, partition=partition, on_delivery=delivered)


def _poll(producer: Producer, seconds: float) -> None:
    """For so long: one poll ends with the first answer, and whoever wrote again at once would be the load."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        producer.poll(left)


def _logger(writer: str, recorder: Recorder) -> logging.Logger:
    """Keeps of what librdkafka says what explains a duplicate."""

    def keep(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "bump" in text or text.startswith("ERRSEQ"):
            recorder.epochs.append(f"{writer}: {text}")
        return False

    logger = logging.Logger(writer)
    logger.addFilter(keep)
    return logger


class RawWriter(Client):
    """Sends each value once, without idempotence, and takes the first answer: it hears of definite failures.

    After an answer that leaves something open it goes on as another writer, since what is on its way may
    yet arrive.
    """

    DEFINITE = ("not_enough_replicas", "unknown_topic_or_partition")

    def __init__(self, *args: Any, cluster: Cluster, chance: random.Random) -> None:
        super().__init__(*args)
        self._cluster = cluster
        self._chance = chance
        self._connections: dict[str, RawClient] = {}
        self._doubts = 0
        self._number = 0

    def run(self) -> None:
        while not self.stopping.wait(self._chance.uniform(0.01, 0.1)):
            partition = self._chance.choice(self.partitions)
            leader = self._cluster.partition(self.topic, partition).get("leader")
            if leader:
                self._write(self._cluster.brokers[leader].bootstrap, partition)
        for client in self._connections.values():
            client.socket.close()

    def _write(self, leader: str, partition: int) -> None:
        writer = f"{self.name}/{self._doubts}"
        self._number += 1
        value = f"{writer}:{self._number}"
        handle = self.recorder.began(writer, partition, value)
        try:
            client = self._connections.get(leader)
            if client is None:
                client = self._connections[leader] = RawClient(leader, timeout_s=RAW_S_MAX)
            answer = client.produce(self.topic, make_batch([value.encode()]), partition=partition)
        except ConnectionRefusedError:
            self.recorder.ended(handle, Outcome.FAILED)
        except (OSError, ConnectionEndedError):
            self._doubts += 1
            broken = self._connections.pop(leader, None)
            if broken is not None:
                broken.socket.close()
        else:
            error = answer.error_code.name
            if error == "none":
                self.recorder.ended(handle, Outcome.OK, answer.base_offset)
            elif error in self.DEFINITE:
                self.recorder.ended(handle, Outcome.FAILED)
            else:
                self._doubts += 1


class Reader(Client):
    """Reads all partitions from the start, on and on, and to their ends once it is told them."""

    ends: dict[int, int] | None = None

    def state(self) -> str:
        return f"at {self.positions} of {self.ends}"

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"reader-{self.name}",
                "auto.offset.reset": "error",
                **CLIENT,
                **READER,
            }
        )
        consumer.assign([TopicPartition(self.topic, index, 0) for index in self.partitions])
        self.positions = dict.fromkeys(self.partitions, 0)
        try:
            while not self._is_done():
                messages = _without_errors(consumer.consume(2_000, 0.1), self.name, self.recorder)
                self.recorder.polled(self.name, messages)
                self.positions |= {_partition_of(each): _offset_of(each) + 1 for each in messages}
            self.recorder.complete(self.name)
        finally:
            consumer.close()

    def _is_done(self) -> bool:
        if not self.stopping.is_set():
            return False
        ends = self.ends
        return ends is not None and all(self.positions[index] >= ends[index] for index in self.partitions)


class Member(Client):
    """One of a group: reads what it is assigned and commits it, one commit at a time.

    Where it begins after an assignment is what it was told to be committed. That is never nothing (see
    `commit_starts`) and never out of range: librdkafka, waiting for where a log begins on a broker that
    hangs, takes up that question again after the answer no longer matters, and goes back to the beginning.
    """

    def __init__(self, *args: Any, group: str) -> None:
        super().__init__(*args)
        self._group = group
        self._commit_due = 0.0
        self._assignments = 0
        self._assigned_at: dict[int, float] = {}
        self._positions: dict[int, int] = {}
        """Read and not committed yet."""
        self._committing: tuple[float, int, dict[int, int]] | None = None

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self._group,
                "auto.offset.reset": "error",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "on_commit": self._committed,
                **CLIENT,
                **READER,
            }
        )
        consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked)
        try:
            while not self.stopping.is_set():
                # One by one: `consume` may return what it took before a rebalance that it served as well.
                message = consumer.poll(COMMIT_S)
                if message is not None and _without_errors((message,), self.name, self.recorder):
                    self._read(message)
                if self._positions and self._committing is None and time.monotonic() >= self._commit_due:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._assignments += 1
        now = time.monotonic()
        self._assigned_at = {each.partition: now for each in partitions}

    def _revoked(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._assignments += 1
        self._positions.clear()

    def _read(self, message: Message) -> None:
        partition, offset = _partition_of(message), _offset_of(message)
        began = self._assigned_at.pop(partition, None)
        if began is not None:
            self.recorder.committed(Committed(partition, offset, began, time.monotonic()))
        self._positions[partition] = offset + 1
        self.recorder.polled(f"{self.name}/{self._assignments}", (message,))

    def _commit(self, consumer: Consumer) -> None:
        positions, self._positions = self._positions, {}
        now = time.monotonic()
        self._committing = (now, self._assignments, positions)
        self._commit_due = now + COMMIT_S
        consumer.commit(
            offsets=[TopicPartition(self.topic, index, offset) for index, offset in positions.items()]
        )

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        assert self._committing is not None
        (began, assignments, positions), self._committing = self._committing, None
        agreed = {each.partition for each in partitions if error is None and each.error is None}
        for index, offset in positions.items():
            outcome = Outcome.OK if index in agreed else Outcome.UNKNOWN
            self.recorder.commit(Commit(index, offset, outcome, began, time.monotonic()))
            if outcome is not Outcome.OK and assignments == self._assignments:
                self._positions.setdefault(index, offset)  # again, unless it has read on


def commit_starts(bootstrap: str, topic: str, partitions: int, group: str) -> None:
    """Let a group that has no members begin at offset 0 of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **CLIENT})
    starts = [TopicPartition(topic, index, 0) for index in range(partitions)]

    def commit() -> bool:
        try:
            return all(each.error is None for each in consumer.commit(offsets=starts, asynchronous=False))
        except KafkaException:
            return False  # nobody coordinates a group in the moment in which the topic of offsets is made

    try:
        wait_until(commit, f"group {group} at the start of {topic}", timeout_s=END_S_MAX)
    finally:
        consumer.close()


class Observer(Client):
    """Asks again and again what a group has committed."""

    def __init__(self, *args: Any, group: str) -> None:
        super().__init__(*args)
        self._group = group
        self.newest: dict[int, int] = {}

    def run(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self._group, **CLIENT})
        try:
            while not self.stopping.wait(0.1):
                self._ask(consumer)
        finally:
            consumer.close()

    def _ask(self, consumer: Consumer) -> None:
        began = time.monotonic()
        try:
            answers = consumer.committed([TopicPartition(self.topic, each) for each in self.partitions], 5.0)
        except KafkaException:
            return  # nobody coordinates the group at the moment
        ended = time.monotonic()
        for each in answers:
            if each.error is None:
                offset = 0 if each.offset == OFFSET_INVALID else each.offset
                self.newest[each.partition] = offset
                self.recorder.committed(Committed(each.partition, offset, began, ended))


def read_to_the_end(
    name: str, bootstrap: str, topic: str, ends: dict[int, int], recorder: Recorder
) -> Callable[[], None]:
    """Starts a reader from the start to these ends; what is returned waits for it."""
    reader = Reader(name, bootstrap, topic, len(ends), recorder)
    reader.ends = ends
    reader.stop()
    reader.start()
    return reader.join


def _without_errors(messages: Iterable[Message], name: str, recorder: Recorder) -> list[Message]:
    good = []
    for message in messages:
        error = message.error()
        if error is None:
            good.append(message)
        elif error.code() not in TRANSIENT:
            recorder.complain(f"{name}: {error}")
    return good


def _partition_of(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition


def _offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _value_of(message: Message) -> str:
    value = message.value()
    assert isinstance(value, bytes)
    return value.decode()
