"""Clients that take all they can get, each a process, and count instead of remembering.

A writer numbers the messages of each partition. It is idempotent and hears of each message, so a partition
holds its numbers without a gap, and a reader needs to remember no more than which one comes next. Counters in
shared memory tell how far everybody is. Writers that are too far ahead of the slowest reader wait for it, so
that what was read can be deleted, and minutes of full load need little disk.

Clients usually have machines of their own. Here they stand back behind the nodes when both want the
processor, and take all that is left of it.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

PARTITIONS = 4
WRITERS = 2
GROUPS = 2
AHEAD_MAX = 200_000
"""Messages of a writer that the slowest group has not read."""
VALUE = struct.Struct(">Bq")
PADDING = bytes(500 - VALUE.size)
BURST = 200
FLUSH_S_MAX = 120.0
NICE = 5
QUIET: dict[str, Any] = {"log_level": 0}
SPAWN = multiprocessing.get_context("spawn")
Work = Callable[[str, str, int, "Counters"], None]


@dataclass
class Counters:
    """What all processes see. Each number is written by one process alone."""

    sent: Any
    acknowledged: Any
    read: Any
    stop_writing: Any
    stop_reading: Any
    complaints: Any

    @classmethod
    def create(cls) -> Counters:
        places = WRITERS * PARTITIONS
        return cls(
            SPAWN.RawArray(ctypes.c_int64, places),
            SPAWN.RawArray(ctypes.c_int64, places),
            SPAWN.RawArray(ctypes.c_int64, GROUPS * places),
            SPAWN.Event(),
            SPAWN.Event(),
            SPAWN.SimpleQueue(),
        )

    def read_of(self, group: int) -> list[int]:
        places = WRITERS * PARTITIONS
        return list(self.read[group * places : (group + 1) * places])

    def ahead(self, writer: int) -> int:
        """Messages of the writer that are sent and not read by everybody."""
        own = slice(writer * PARTITIONS, (writer + 1) * PARTITIONS)
        return sum(self.sent[own]) - min(sum(self.read_of(group)[own]) for group in range(GROUPS))

    @property
    def is_all_read(self) -> bool:
        return all(self.read_of(group) == list(self.acknowledged) for group in range(GROUPS))

    def complained(self) -> list[str]:
        found = []
        while not self.complaints.empty():
            found.append(str(self.complaints.get()))
        return found


def start(bootstrap: str, topic: str, counters: Counters) -> tuple[list[BaseProcess], list[BaseProcess]]:
    """Writers and readers."""
    writers = [begin(write, bootstrap, topic, number, counters) for number in range(WRITERS)]
    readers = [begin(read, bootstrap, topic, number, counters) for number in range(GROUPS)]
    return writers, readers


def begin(work: Work, bootstrap: str, topic: str, number: int, counters: Counters) -> BaseProcess:
    process = SPAWN.Process(target=guarded, args=(work, bootstrap, topic, number, counters), daemon=True)
    process.start()
    return process


def guarded(work: Work, bootstrap: str, topic: str, number: int, counters: Counters) -> None:
    os.nice(NICE)
    try:
        work(bootstrap, topic, number, counters)
    except BaseException:
        counters.complaints.put(f"{work.__name__} {number}: {traceback.format_exc()}")
        raise


def write(bootstrap: str, topic: str, writer: int, counters: Counters) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "message.timeout.ms": int(1_000 * FLUSH_S_MAX),
            **QUIET,
        }
    )
    first = writer * PARTITIONS
    sent, acknowledged = counters.sent, counters.acknowledged

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            counters.complaints.put(f"writer {writer}: {error}")
        else:
            acknowledged[first + (message.partition() or 0)] += 1

    while not counters.stop_writing.is_set():
        if counters.ahead(writer) > AHEAD_MAX:
            producer.poll(0.01)
            continue
        for number in range(BURST):
            partition = number % PARTITIONS
            value = VALUE.pack(writer, sent[first + partition]) + PADDING
            try:
                producer.produce(topic, value, partition=partition, on_delivery=delivered)
            except BufferError:  # as fast as it can
                producer.poll(0.01)
                break
            sent[first + partition] += 1
        producer.poll(0)
    left = producer.flush(FLUSH_S_MAX)
    if left:
        counters.complaints.put(f"writer {writer}: {left} messages were never answered")


def read(bootstrap: str, topic: str, group: int, counters: Counters) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-{group}",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "queued.max.messages.kbytes": 16_384,
            **QUIET,
        }
    )
    consumer.subscribe([topic])
    first = group * WRITERS * PARTITIONS
    try:
        while not counters.stop_reading.is_set():
            for message in consumer.consume(1_000, 0.2):
                take(message, first, group, counters)
    finally:
        consumer.close()


def take(message: Message, first: int, group: int, counters: Counters) -> None:
    error = message.error()
    if error is not None:
        counters.complaints.put(f"group {group}: {error}")
        return
    value = message.value()
    assert isinstance(value, bytes)
    writer, number = VALUE.unpack_from(value)
    place = first + writer * PARTITIONS + (message.partition() or 0)
    expected = counters.read[place]
    if number != expected:
        raise AssertionError(
            f"group {group}, partition {message.partition()}, offset {message.offset()}:"
            f" number {number} of writer {writer} instead of {expected}"
        )
    counters.read[place] = expected + 1
