"""The writer with a producer that fails on request: each call hears of its own records, and of them alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.client.errors import (
    ClosedError,
    DisconnectedServerError,
    InsufficientReplicasError,
    MessageTooLargeError,
    PenstockError,
    TopicClusterDoesNotExistError,
)
from penstock.traffic.writer import RecordWriter

Report = Callable[[KafkaError, "Sent"], None]


class Sent:
    def __init__(self, topic: str) -> None:
        self._topic = topic

    def topic(self) -> str:
        return self._topic


class FakeProducer:
    """Keeps what is produced until it is flushed, which a test may hold up."""

    def __init__(self) -> None:
        self.queue: list[tuple[str, bytes, Report]] = []
        self.queue_max = 1_000
        self.stored: list[bytes] = []
        self.flushes = 0
        self.failing: dict[bytes, KafkaError] = {}
        self.refusing: dict[bytes, KafkaError] = {}
        self.flushing = threading.Event()
        self.may_flush = threading.Event()
        self.may_flush.set()
        self.interruption: BaseException | None = None

    def produce(self, topic: str, value: bytes, key: str | None, partition: int, report: Report) -> None:
        assert partition == -1
        if value in self.refusing:
            raise KafkaException(self.refusing[value])
        if len(self.queue) >= self.queue_max:
            raise BufferError("full")
        self.queue.append((topic, value, report))

    def poll(self, timeout_s: float) -> int:
        self._deliver()
        return 0

    def flush(self, timeout_s: float) -> int:
        self.flushes += 1
        self.flushing.set()
        assert self.may_flush.wait(10)
        if self.interruption is not None:
            raise self.interruption
        self._deliver()
        return 0

    def _deliver(self) -> None:
        for topic, value, report in self.queue:
            if value in self.failing:
                report(self.failing[value], Sent(topic))
            else:
                self.stored.append(value)
        self.queue.clear()


class FakeBrokers:
    timeout_s = 1.0

    def __init__(self) -> None:
        self.producers: list[FakeProducer] = []
        self.lacking = False
        self.away = False
        self.settings: dict[str, Any] = {}

    def client(self, kind: Any, **settings: Any) -> FakeProducer:
        self.settings = settings
        self.producers.append(FakeProducer())
        return self.producers[-1]

    def lacks_replicas(self, topic: str) -> bool:
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.lacking

    def silence(self, what: str, error: KafkaError) -> DisconnectedServerError:
        return DisconnectedServerError(what)


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


@pytest.fixture
def writer(brokers: FakeBrokers) -> RecordWriter:
    writer = RecordWriter(brokers)  # type: ignore[arg-type]  # all of it that is used
    writer.write([("t", [("k", b"opened")])])
    return writer


@pytest.fixture
def producer(writer: RecordWriter, brokers: FakeBrokers) -> FakeProducer:
    return brokers.producers[0]


def test_what_is_not_reported_is_stored(writer: RecordWriter, producer: FakeProducer) -> None:
    writer.write([("t", [("k", b"1"), (None, b"2")]), ("u", [("k", b"3")])])
    assert producer.stored == [b"opened", b"1", b"2", b"3"]


def test_a_record_is_not_stored_twice_and_reports_are_few(brokers: FakeBrokers, writer: RecordWriter) -> None:
    assert brokers.settings["enable_idempotence"] is True
    assert brokers.settings["acks"] == "all"
    assert brokers.settings["delivery_report_only_error"] is True


@pytest.mark.parametrize(
    ("code", "lacking", "away", "kind"),
    [
        (KafkaError._MSG_TIMED_OUT, False, False, DisconnectedServerError),
        (KafkaError._MSG_TIMED_OUT, True, False, InsufficientReplicasError),
        (KafkaError._MSG_TIMED_OUT, True, True, DisconnectedServerError),
        (KafkaError.NOT_ENOUGH_REPLICAS, False, False, InsufficientReplicasError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False, False, TopicClusterDoesNotExistError),
        (KafkaError.MSG_SIZE_TOO_LARGE, False, False, MessageTooLargeError),
    ],
)
def test_failures(
    writer: RecordWriter,
    producer: FakeProducer,
    brokers: FakeBrokers,
    code: int,
    lacking: bool,
    away: bool,
    kind: type[PenstockError],
) -> None:
    brokers.lacking, brokers.away = lacking, away
    producer.failing = {b"2": KafkaError(code), b"3": KafkaError(KafkaError._PURGE_QUEUE)}
    with pytest.raises(kind, match="2 of 4 records were not acknowledged, the first for topic 'u'"):
        writer.write([("t", [("k", b"1")]), ("u", [("k", b"2"), ("k", b"3"), ("k", b"4")])])
    writer.write([("t", [("k", b"5")])])
    assert producer.stored == [b"opened", b"1", b"4", b"5"]


def test_a_record_that_cannot_be_handed_over(writer: RecordWriter, producer: FakeProducer) -> None:
    producer.refusing = {b"2": KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)}
    with pytest.raises(MessageTooLargeError, match="2 of 3 records"):
        writer.write([("t", [("k", b"1"), ("k", b"2"), ("k", b"3")])])
    assert producer.stored == [b"opened", b"1"]


def test_a_full_queue_is_waited_for(writer: RecordWriter, producer: FakeProducer) -> None:
    producer.queue_max = 3
    writer.write([("t", [("k", b"%d" % number) for number in range(20)])])
    assert len(producer.stored) == 21


def test_a_client_that_librdkafka_gives_up_is_replaced(
    writer: RecordWriter, producer: FakeProducer, brokers: FakeBrokers
) -> None:
    producer.failing = {b"1": KafkaError(KafkaError._FATAL, "fatal", fatal=True)}
    with pytest.raises(PenstockError):
        writer.write([("t", [("k", b"1")])])
    writer.write([("t", [("k", b"1")])])
    assert [len(each.stored) for each in brokers.producers] == [1, 1]


def in_thread(call: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, failures


def hold(
    writer: RecordWriter, producer: FakeProducer, count: int
) -> tuple[tuple[threading.Thread, list[BaseException]], list[tuple[threading.Thread, list[BaseException]]]]:
    """One call that is being flushed, and others that wait behind it."""
    producer.flushing.clear()
    producer.may_flush.clear()
    first = in_thread(lambda: writer.write([("t", [("k", b"first")])]))
    assert producer.flushing.wait(10)
    others = [in_thread(lambda n=n: writer.write([("t", [("k", b"%d" % n)])])) for n in range(count)]
    while len(writer._waiting) < count:
        assert all(thread.is_alive() for thread, _ in others)
    return first, others


def test_those_who_wait_travel_together(writer: RecordWriter, producer: FakeProducer) -> None:
    before = producer.flushes
    first, others = hold(writer, producer, 10)
    producer.failing = {b"7": KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)}
    producer.may_flush.set()
    for thread, _ in (first, *others):
        thread.join(10)
    assert producer.flushes == before + 2
    assert sorted(producer.stored) == sorted([b"opened", b"first", *(b"%d" % n for n in range(10) if n != 7)])
    assert [len(failures) for _, failures in others] == [int(n == 7) for n in range(10)]
    assert first[1] == []


def test_others_are_told_of_an_interruption(writer: RecordWriter, producer: FakeProducer) -> None:
    first, others = hold(writer, producer, 2)
    producer.interruption = KeyboardInterrupt()
    producer.may_flush.set()
    for thread, _ in (first, *others):
        thread.join(10)
    kinds = [type(error) for _, failures in (first, *others) for error in failures]
    assert len(kinds) == 3
    assert kinds.count(KeyboardInterrupt) == 2
    assert issubclass(next(kind for kind in kinds if kind is not KeyboardInterrupt), PenstockError)


def test_closing_waits_for_those_who_write(writer: RecordWriter, producer: FakeProducer) -> None:
    first, others = hold(writer, producer, 2)
    closing, failures = in_thread(writer.close)
    producer.may_flush.set()
    for thread in (closing, first[0], *(thread for thread, _ in others)):
        thread.join(10)
    assert failures == first[1] == others[0][1] == others[1][1] == []
    assert len(producer.stored) == 4
    with pytest.raises(ClosedError):
        writer.write([("t", [("k", b"1")])])
