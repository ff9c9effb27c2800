"""Writing the heat map: what Spark calls with each batch.

All records of a batch go to partition 0 in their order, by one idempotent producer that lives as long as the
job: nothing is connected anew for a batch, and totals arrive behind the cells they belong to. A batch is done
when all are acknowledged. One that Spark does again is written again: figures are absolute, so readers see
what they have seen.

Everything that a batch does, reading and counting too, happens when it is collected here. So every failure
of a batch comes by here, and is kept for whoever decides whether to start again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, Message, Producer

from penstock.pipelines.traffic.transforms import from_lines
from penstock.spark.cluster import client_settings, error_line, new_client
from penstock.spark.errors import SourceError
from penstock.spark.options import Connection
from penstock.traffic.heat import TOTALS_KEY, Totals
from penstock.traffic.topics import HEATMAP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION: Final = 0
POLL_S: Final = 0.1


class BatchFailedError(Exception):
    """For Spark; why it failed is with the publisher."""


class HeatmapPublisher:
    def __init__(self, bootstrap: str, timeout_ms: int) -> None:
        connection = Connection(bootstrap, timeout_ms)
        settings = client_settings(
            connection,
            enable_idempotence=True,
            acks="all",
            linger_ms=2,
            message_timeout_ms=timeout_ms,
            delivery_report_only_error=True,
            compression_type="lz4",
        )
        self._where = f"topic {HEATMAP!r} at {bootstrap}"
        self._producer = new_client(Producer, settings | {"on_delivery": self._delivered})
        self._failure: str | None = None
        self.error: Exception | None = None
        """What the last batch failed with."""
        self.totals: Totals | None = None
        """Of the last batch that is written."""
        self.written_at = 0.0
        """When that was, in seconds since 1970."""

    def __call__(self, batch: DataFrame, _: int) -> None:
        try:
            self._publish(batch)
        except Exception as error:
            # Spark runs a regular expression over the text of the exception, and stack traces of Java, which
            # may be in it, are too long for that.
            self.error = error
            raise BatchFailedError("see `error`") from None

    def _publish(self, batch: DataFrame) -> None:
        self._failure = None
        totals = self.totals
        for (records,) in batch.collect():
            for key, value in from_lines(records):
                self._send(key, value)
                if key == TOTALS_KEY:
                    totals = Totals.from_json(value)
        while len(self._producer):
            self._poll(POLL_S)
        self._poll(0)
        self.totals, self.written_at = totals, time.time()

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(POLL_S)

    def _send(self, key: bytes, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(HEATMAP, value, key, PARTITION)
                return
            except BufferError:  # the queue is full: wait until some are on their way
                self._poll(POLL_S)

    def _poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        if self._failure is not None:
            self._producer.purge()
            raise SourceError(self._failure)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = f"a record to {self._where} was not written: {error_line(error)}"
