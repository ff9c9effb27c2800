"""A producer that rows are sent through: idempotent, acks=all, with a bounded queue.

The first message that is not written is remembered and raised at the next opportunity; nothing is sent after
that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.spark.cluster import client_settings, error_line, new_client
from penstock.spark.errors import NotWrittenError
from penstock.spark.rows import rows

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.spark.options import Connection
    from penstock.spark.rows import Row

POLL_S: Final = 0.1
ROWS_BETWEEN_POLLS: Final = 1_000
QUEUE_MESSAGES_MAX: Final = 100_000
QUEUE_KIB_MAX: Final = 64 * 1024


class Sender:
    def __init__(self, connection: Connection, **own: Any) -> None:
        """Keyword names with underscores stand for further settings of the producer, with dots."""
        self.sent = 0
        self.topics: set[str] = set()
        """To which something was sent."""
        self._where = connection.bootstrap
        self._failure: NotWrittenError | None = None
        defaults: dict[str, Any] = {
            "enable_idempotence": True,
            "acks": "all",
            "linger_ms": 5,
            "message_timeout_ms": connection.timeout_ms,
            "queue_buffering_max_messages": QUEUE_MESSAGES_MAX,
            "queue_buffering_max_kbytes": QUEUE_KIB_MAX,
            "delivery_report_only_error": True,
        }
        settings = client_settings(connection, **(defaults | own))
        self.producer = new_client(Producer, settings | {"on_delivery": self._delivered})

    def send(self, batch: pa.RecordBatch, topic: str | None) -> None:
        """Hands over rows that went through `written`, in their order; waits while the queue is full."""
        for row in rows(batch, topic):
            self._count(row)
        self.topics.update([topic] if topic is not None else batch.column("topic").unique().to_pylist())

    def send_row(self, row: Row) -> None:
        """The same with a single one."""
        self._count(row)
        self.topics.add(row[0])

    def _count(self, row: Row) -> None:
        self._produce(*row)
        self.sent += 1
        if self.sent % ROWS_BETWEEN_POLLS == 0:
            self._poll(0)

    def finish(self) -> None:
        """Waits until all are acknowledged; within message.timeout.ms each has succeeded or failed."""
        while len(self.producer):
            self._poll(POLL_S)
        self._poll(0)

    def _produce(self, topic: str, value: Any, key: Any, partition: int, headers: Any) -> None:
        while True:
            try:
                self.producer.produce(topic, value, key, partition, headers=headers)
                return
            except BufferError:  # the queue is full: wait until some are on their way
                self._poll(POLL_S)
            except KafkaException as error:
                self._poll(0)  # a producer refuses everything once it has failed, and this says why
                raise self._not_written(topic, error, error.args[0]) from error

    def _poll(self, timeout_s: float) -> None:
        self.producer.poll(timeout_s)
        if self._failure is not None:
            self.producer.purge()
            raise self._failure

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = self._not_written(message.topic(), error, error)

    def _not_written(
        self, topic: str | None, cause: KafkaError | KafkaException, error: KafkaError
    ) -> NotWrittenError:
        """The same words whether librdkafka knows the topic and refuses at once, or refuses later."""
        line = f"a message to topic {topic!r} at {self._where} was not written: {error_line(cause)}"
        return NotWrittenError(line, error)
