"""The messages of one topic in the order of its partitions' logs, one at a time.

What librdkafka has fetched ahead is there at once. When that is used up, the cluster is asked where the logs
end now: "nothing left" is said only of an end that was asked for after the call began. Offsets may be
missing, also before the end, where compaction removed records or a transaction left its marker. So an end is
reached with the offset before it, or when librdkafka says that it came there (EOF).

A position outside of its log is that of a topic whose oldest messages were removed, or that was deleted and
made again: reading goes on at the beginning of what there is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from penstock.client.kafka.failures import UNKNOWN_TOPIC, as_error, passes
from penstock.client.kafka.message_counter import MessageCounter, MovedError

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster
    from penstock.client.kafka.control import Control
    from penstock.client.kafka.positions import Positions

POLL_S: Final = 0.1
QUEUE_KIB_MAX: Final = 8 * 1024
"""What librdkafka fetches ahead for one topic."""


class TopicReader:
    def __init__(self, cluster: Cluster, control: Control, positions: Positions, topic: str) -> None:
        self._cluster = cluster
        self._control = control
        self._positions = positions
        self._topic = topic
        self._reader: Consumer | None = None
        self._next: dict[int, int] = {}
        """The offset of the next message in each partition; the one that was found is not behind it yet."""
        self._ends: dict[int, int] = {}
        self._found: Message | None = None
        self._counter = MessageCounter(cluster, topic)

    def peek(self) -> bytes | None:
        """The value of the next message; empty where it has none (a tombstone)."""
        if self._found is None:
            reader = self._open()
            self._found = self._poll(reader, 0)
            if self._found is None:
                self._look()
                self._found = self._wait(reader)
        return None if self._found is None else self._found.value() or b""

    def take(self) -> None:
        """The message that `peek` found is handed out."""
        assert self._found is not None
        index, offset = _place(self._found)
        self._positions.take(self._topic, index, offset)
        self._next[index] = offset + 1
        self._counter.take(index, offset)
        self._found = None

    def size(self) -> int:
        self._open()
        while True:
            self._look()
            try:
                return self._counter.count(self._next, self._ends)
            except MovedError:
                continue  # retention was faster

    def close(self) -> None:
        self._counter.close()
        if self._reader is not None:
            self._reader.close()

    def _open(self) -> Consumer:
        if self._reader is None:
            # librdkafka wants a name; nothing is committed under it.
            self._reader = self._cluster.reader("penstock-consumer", queued_max_messages_kbytes=QUEUE_KIB_MAX)
        return self._reader

    def _look(self) -> None:
        """Asks which partitions there are now, and where their logs begin and end."""
        indexes = self._control.partitions(self._topic)
        ranges = {index: self._control.offsets(self._topic, index) for index in indexes}
        known = {**self._next, **self._stored([index for index in indexes if index not in self._next])}
        position = {}
        for index, (start, end) in ranges.items():
            here = known.get(index, start)
            position[index] = here if start <= here <= end else start
        self._ends = {index: end for index, (_, end) in ranges.items()}
        if position != self._next:
            self._next = position
            self._found = None
            self._counter.forget()
            self._assign()

    def _stored(self, indexes: list[int]) -> dict[int, int]:
        return self._positions.stored(self._topic, indexes) if indexes else {}

    def _assign(self) -> None:
        assert self._reader is not None
        self._reader.assign(
            [TopicPartition(self._topic, index, offset) for index, offset in self._next.items()]
        )

    def _wait(self, reader: Consumer) -> Message | None:
        """The first message before the ends that were seen."""
        deadline = time.monotonic() + self._cluster.timeout_s
        while any(self._next[index] < end for index, end in self._ends.items()):
            found = self._poll(reader, POLL_S)
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                raise self._cluster.silence(f"topic {self._topic!r} cannot be read")
        return None

    def _poll(self, reader: Consumer, timeout_s: float) -> Message | None:
        """One event of librdkafka, if it is a message."""
        polled = reader.poll(timeout_s)
        if polled is None:
            return None
        error = polled.error()
        if error is None:
            return polled
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            index, end = _place(polled)
            self._next[index] = max(self._next[index], end)
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._look()
        elif not passes(error) and code not in UNKNOWN_TOPIC:
            raise as_error(error, f"topic {self._topic!r} cannot be read")
        return None


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset
