"""Reading one range of one partition.

The same range gives the same records, whoever reads it and how often: exactly the offsets from its start up
to its end. Offsets may be missing in between, and at the end, where compaction removed records or a
transaction left its marker. So the end is not found by counting: it is reached with the range's last offset,
with a record behind it, or when the log says that its end (EOF) is not before the range's end.

A range whose beginning is gone, a log that ends too early and a broker that is silent are errors. No group
is joined and nothing is committed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from penstock.spark.arrow import SCHEMA, record_batch
from penstock.spark.cluster import Cluster, client_settings, error_line, new_client
from penstock.spark.errors import DataLossError, SourceError
from penstock.spark.options import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def read_range(
    asked: OffsetRange, options: ReadOptions, schema: pa.Schema = SCHEMA
) -> Iterator[pa.RecordBatch]:
    """The records of the range in order of their offsets, in batches of bounded size."""
    consumer = new_client(Consumer, _settings(options.connection))
    try:
        yield from _Range(consumer, asked, options).batches(schema)
    finally:
        consumer.close()


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
    def __init__(self, consumer: Consumer, asked: OffsetRange, options: ReadOptions) -> None:
        self._consumer = consumer
        self._partition = asked.partition
        self._position = asked.start
        self._end = asked.end
        self._options = options
        self._rows = FIRST_BATCH_ROWS
        self._log_end: int | None = None
        self._last_error = "no answer"

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        self._seek(self._position)
        headers = self._options.include_headers
        deadline = self._deadline()
        while self._position < self._end:
            wanted = min(self._rows, self._end - self._position)
            polled = self._consumer.consume(wanted, timeout=POLL_S)
            before = self._position
            messages = self._good(polled)
            if messages:
                for part in _parts(messages):
                    yield record_batch(part, schema, headers=headers)
                self._rows = _fitting_rows(messages)
            if self._position > before:
                deadline = self._deadline()
            elif time.monotonic() > deadline:
                self._give_up()

    def _give_up(self) -> None:
        where = f"partition {self._partition} is to be read from offset {self._position} up to {self._end}"
        if self._log_end is not None:
            self._lost(f"{where}, and its log ends at {self._log_end}")
            return
        connection = self._options.connection
        silence = f"{where}, and nothing came from {connection.bootstrap} for {connection.timeout_s:g} s"
        try:
            there = Cluster(connection).existing(Topics(assigned=(self._partition,)))
        except SourceError as error:
            raise SourceError(f"{silence}: {error}") from error
        if there:
            raise SourceError(f"{silence}: {self._last_error}")
        self._lost(f"partition {self._partition} is gone, it was to be read from offset {self._position}")

    def _lost(self, what: str) -> None:
        """The rest of the range is not there."""
        if self._options.fail_on_data_loss:
            raise DataLossError(what)
        self._position = self._end

    def _deadline(self) -> float:
        return time.monotonic() + self._options.connection.timeout_s

    def _seek(self, offset: int) -> None:
        self._position = offset
        self._consumer.assign([TopicPartition(*self._partition, offset)])

    def _good(self, polled: list[Message]) -> list[Message]:
        """The records of the range; the position moves behind what was polled."""
        good = []
        for message in polled:
            error = message.error()
            if error is not None:
                self._judge(error, message)
                continue
            offset = message.offset()
            assert offset is not None
            if self._position <= offset < self._end:
                good.append(message)
            self._position = max(self._position, offset + 1)
        return good

    def _judge(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            end = message.offset()
            assert end is not None
            self._position = max(self._position, end)
            self._log_end = end
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._out_of_range()
        elif code in _PASSING or (error.retriable() and code not in _UNKNOWN):
            self._last_error = error_line(error)
        elif code in _UNKNOWN:
            self._lost(f"partition {self._partition} is gone: {error_line(error)}")
        else:
            raise SourceError(f"partition {self._partition} at offset {self._position}: {error_line(error)}")

    def _out_of_range(self) -> None:
        """What was asked is gone, or was never there."""
        cluster = Cluster(self._options.connection)
        earliest = cluster.earliest([self._partition])[self._partition]
        asked = f"partition {self._partition}: offset {self._position} was asked for"
        if earliest <= self._position:
            latest = cluster.latest([self._partition])[self._partition]
            self._lost(f"{asked} and the log ends at {latest}")
        elif self._options.fail_on_data_loss:
            raise DataLossError(f"{asked} and is gone, the earliest is {earliest}")
        else:
            self._seek(min(earliest, self._end))


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


def _fitting_rows(messages: list[Message]) -> int:
    """How many messages like these make a batch of the size aimed at."""
    size = sum(map(len, messages)) // len(messages) + 1
    return max(1, min(BATCH_ROWS_MAX, BATCH_BYTES_AIM // size))
