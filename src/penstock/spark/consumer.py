"""Reading ranges of partitions, one for each partition.

The same ranges give the same records, whoever reads them and how often: exactly the offsets from a range's
start up to its end, in their order. Which of several partitions comes first is left open, as it is between
tasks. Offsets may be missing in between, and at the end, where compaction removed records or a transaction
left its marker. So the end is not found by counting: it is reached with the range's last offset, with a
record behind it, or when the log says that its end (EOF) is not before the range's end.

A range whose beginning is gone, a log that ends too early and a broker that is silent are errors. No group
is joined and nothing is committed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from penstock.spark.arrow import SCHEMA, record_batch
from penstock.spark.cluster import Cluster, client_settings, error_line
from penstock.spark.consumer_pool import POOL
from penstock.spark.errors import DataLossError, SourceError
from penstock.spark.offsets import Partition
from penstock.spark.options import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.spark.offsets import OffsetRange
    from penstock.spark.options import Connection, ReadOptions

BATCH_ROWS_MAX: Final = 10_000
BATCH_BYTES_AIM: Final = 2 * 1024 * 1024
"""Messages that are turned to Arrow while they are still in the processor's cache cost half."""
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
FIRST_BATCH_ROWS: Final = 100
POLL_S: Final = 0.1
QUEUE_KIB_MAX: Final = 32 * 1024
"""What librdkafka fetches ahead; with BATCH_BYTES_AIM, the bound of a task's memory."""

_UNKNOWN: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_PASSING: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


def read_ranges(
    asked: Sequence[OffsetRange], options: ReadOptions, schema: pa.Schema = SCHEMA
) -> Iterator[pa.RecordBatch]:
    """The records of the ranges, in batches of bounded size, each of one partition."""
    with POOL.consumer(_settings(options.connection)) as consumer:
        yield from _Reader(consumer, asked, options).batches(schema)


def _settings(connection: Connection) -> dict[str, Any]:
    return client_settings(
        connection,
        group_id="penstock-spark-reader",  # librdkafka wants a name; nothing is committed or joined under it
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        auto_offset_reset="error",
        isolation_level="read_committed",
        check_crcs=True,
        fetch_message_max_bytes=4 * 1024 * 1024,
        fetch_wait_max_ms=100,
        # When the queue is full librdkafka pauses fetching, by default for a second: longer than emptying it
        # takes.
        fetch_queue_backoff_ms=5,
        queued_min_messages=1_000_000,
        queued_max_messages_kbytes=QUEUE_KIB_MAX,
        max_poll_interval_ms=86_400_000,  # a task waits for Spark as long as Spark likes
    )


class _Range:
    """What is left to be read of one partition."""

    def __init__(self, asked: OffsetRange) -> None:
        self.partition = asked.partition
        self.position = asked.start
        self.end = asked.end
        self.log_end: int | None = None

    @property
    def left(self) -> int:
        return max(0, self.end - self.position)

    def skip(self) -> None:
        self.position = max(self.position, self.end)


class _Reader:
    def __init__(self, consumer: Consumer, asked: Sequence[OffsetRange], options: ReadOptions) -> None:
        self._consumer = consumer
        self._ranges = {found.partition: _Range(found) for found in asked}
        self._options = options
        self._rows = FIRST_BATCH_ROWS
        self._last_error = "no answer"

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        self._assign()
        headers = self._options.include_headers
        deadline = self._deadline()
        while left := self._left():
            polled = self._consumer.consume(min(self._rows, left), timeout=POLL_S)
            found = self._good(polled)
            for messages in found:
                for part in _parts(messages):
                    yield record_batch(part, schema, headers=headers)
            if found:
                self._rows = _fitting_rows(found)
            if self._left() < left:
                deadline = self._deadline()
            elif time.monotonic() > deadline:
                self._give_up(next(asked for asked in self._ranges.values() if asked.left))

    def _left(self) -> int:
        return sum(asked.left for asked in self._ranges.values())

    def _give_up(self, asked: _Range) -> None:
        where = f"partition {asked.partition} is to be read from offset {asked.position} up to {asked.end}"
        if asked.log_end is not None:
            self._lost(asked, f"{where}, and its log ends at {asked.log_end}")
            return
        connection = self._options.connection
        silence = f"{where}, and nothing came from {connection.bootstrap} for {connection.timeout_s:g} s"
        try:
            there = Cluster(connection).existing(Topics(assigned=(asked.partition,)))
        except SourceError as error:
            raise SourceError(f"{silence}: {error}") from error
        if there:
            raise SourceError(f"{silence}: {self._last_error}")
        self._lost(
            asked, f"partition {asked.partition} is gone, it was to be read from offset {asked.position}"
        )

    def _lost(self, asked: _Range, what: str) -> None:
        """The rest of the range is not there."""
        if self._options.fail_on_data_loss:
            raise DataLossError(what)
        asked.skip()

    def _deadline(self) -> float:
        return time.monotonic() + self._options.connection.timeout_s

    def _assign(self) -> None:
        """What is fetched but not consumed yet is dropped, and fetched again from the positions."""
        self._consumer.assign(
            [
                TopicPartition(*asked.partition, asked.position)
                for asked in self._ranges.values()
                if asked.left
            ]
        )

    def _good(self, polled: list[Message]) -> list[list[Message]]:
        """The records of the ranges, by partition; positions move behind what was polled."""
        found: dict[Partition, list[Message]] = {}
        for message in polled:
            error = message.error()
            if error is not None:
                self._judge(error, message)
                continue
            partition, offset = Partition(message.topic() or "", message.partition() or 0), message.offset()
            asked = self._ranges.get(partition)
            if asked is None:  # fetched for whoever had the consumer before
                continue
            assert offset is not None
            if asked.position <= offset < asked.end:
                found.setdefault(partition, []).append(message)
            asked.position = max(asked.position, offset + 1)
        return list(found.values())

    def _judge(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code in _PASSING or (error.retriable() and code not in _UNKNOWN):
            self._last_error = error_line(error)
            return
        asked = self._ranges.get(Partition(message.topic() or "", message.partition() or 0))
        if asked is None:
            raise SourceError(f"reading {', '.join(map(str, self._ranges))}: {error_line(error)}")
        if code == KafkaError._PARTITION_EOF:
            end = message.offset()
            assert end is not None
            asked.position = max(asked.position, end)
            asked.log_end = end
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._out_of_range(asked)
        elif code in _UNKNOWN:
            self._lost(asked, f"partition {asked.partition} is gone: {error_line(error)}")
        else:
            raise SourceError(f"partition {asked.partition} at offset {asked.position}: {error_line(error)}")

    def _out_of_range(self, asked: _Range) -> None:
        """What was asked is gone, or was never there."""
        cluster = Cluster(self._options.connection)
        earliest = cluster.earliest([asked.partition])[asked.partition]
        what = f"partition {asked.partition}: offset {asked.position} was asked for"
        if earliest <= asked.position:
            latest = cluster.latest([asked.partition])[asked.partition]
            self._lost(asked, f"{what} and the log ends at {latest}")
        elif self._options.fail_on_data_loss:
            raise DataLossError(f"{what} and is gone, the earliest is {earliest}")
        else:
            asked.position = min(earliest, asked.end)
            self._assign()


def _parts(messages: list[Message]) -> Iterator[list[Message]]:
    """The same messages, in lists that fit into one Arrow batch. Nearly always that is one."""
    if sum(map(len, messages)) <= BATCH_BYTES_MAX:
        yield messages
        return
    part: list[Message] = []
    size = 0
    for message in messages:
        if part and size + len(message) > BATCH_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message)
    yield part


def _fitting_rows(found: list[list[Message]]) -> int:
    """How many messages like these make a batch of the size aimed at."""
    size = sum(sum(map(len, messages)) for messages in found) // sum(map(len, found)) + 1
    return max(1, min(BATCH_ROWS_MAX, BATCH_BYTES_AIM // size))
