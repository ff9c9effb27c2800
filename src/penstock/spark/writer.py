"""Writing rows as messages, at least once.

An idempotent producer per task, acks=all: within one attempt of a task no message is lost, doubled or out of
order in its partition. But Spark runs a task again after a failure, and a micro batch again after a crash,
and what the first attempt wrote is there already: readers may see a message more than once. Put an id into
the message where that matters.

A task ends when every message is acknowledged. The first message that the broker refuses fails it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.spark.cluster import client_settings, error_line, new_client
from penstock.spark.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.spark.options import Connection, WriteOptions

POLL_S: Final = 0.1
ROWS_BETWEEN_POLLS: Final = 1_000
QUEUE_MESSAGES_MAX: Final = 100_000
QUEUE_KIB_MAX: Final = 64 * 1024
UNASSIGNED: Final = -1
"""As librdkafka calls a partition that its partitioner may choose."""


@dataclass
class Written(WriterCommitMessage):
    messages: int


class PenstockWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_batches(iterator, self._options)


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_batches(iterator, self._options)


def write_batches(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> Written:
    sender = _Sender(options.connection)
    for batch in batches:
        columns = _Columns(batch, options.topic)
        for row in range(batch.num_rows):
            sender.send(columns.topics[row], columns, row)
    sender.finish()
    return Written(sender.sent)


class _Columns:
    """A record batch as Python values, one list for each column that is there."""

    def __init__(self, batch: pa.RecordBatch, topic: str | None) -> None:
        def column(name: str) -> Sequence[Any] | None:
            return batch.column(name).to_pylist() if name in batch.schema.names else None

        rows = batch.num_rows
        self.topics: Sequence[str | None] = [topic] * rows if topic is not None else column("topic") or []
        self.values: Sequence[Any] = column("value") or []
        self.keys = column("key") or [None] * rows
        self.partitions = column("partition") or [None] * rows
        self.headers = column("headers") or [None] * rows


class _Sender:
    def __init__(self, connection: Connection) -> None:
        self.sent = 0
        self._connection = connection
        self._failure: str | None = None
        own = client_settings(
            connection,
            enable_idempotence=True,
            acks="all",
            linger_ms=5,
            message_timeout_ms=connection.timeout_ms,
            queue_buffering_max_messages=QUEUE_MESSAGES_MAX,
            queue_buffering_max_kbytes=QUEUE_KIB_MAX,
            delivery_report_only_error=True,
        )
        self._producer = new_client(Producer, own | {"on_delivery": self._delivered})

    def send(self, topic: str | None, columns: _Columns, row: int) -> None:
        if topic is None:
            raise SourceError("column 'topic' is null in a row")
        headers, partition = columns.headers[row], columns.partitions[row]
        if partition is not None and partition < 0:
            raise SourceError(f"column 'partition' is {partition} in a row")
        arguments = {
            "value": columns.values[row],
            "key": columns.keys[row],
            "partition": UNASSIGNED if partition is None else partition,
            "headers": [(header["key"], header["value"]) for header in headers] if headers else None,
        }
        while True:
            try:
                self._producer.produce(topic, **arguments)
                break
            except BufferError:  # the queue is full: wait until some are on their way
                self._poll(POLL_S)
            except KafkaException as error:
                raise SourceError(
                    f"a message to topic {topic!r} cannot be written: {error_line(error)}"
                ) from error
        self.sent += 1
        if self.sent % ROWS_BETWEEN_POLLS == 0:
            self._poll(0)

    def finish(self) -> None:
        """Waits until all are acknowledged; within message.timeout.ms each has succeeded or failed."""
        while len(self._producer):
            self._poll(POLL_S)
        self._poll(0)

    def _poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        if self._failure is not None:
            self._producer.purge()
            raise SourceError(self._failure)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            where = f"topic {message.topic()!r} at {self._connection.bootstrap}"
            self._failure = f"a message to {where} was not written: {error_line(error)}"
