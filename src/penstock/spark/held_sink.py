"""A transactional sink that is held for as long as it lives.

`TransactionalSink` is for whoever has nothing but rows: each batch takes the sink over, writes and lets go.
Where what is written depends on what was written before, that is too late: what was read may be outdated by
the time the sink is taken. Here it is taken over first. What an earlier producer left open is decided then,
so what is read afterwards stays true until this sink changes it, or another one does, which is noticed.

Each transaction has a producer of its own: one that stays hangs, whatever its time limits say, when it sends
offsets after the coordinator of its group was restarted (see `Attempt`). Before it writes, what the sink
remembers says which of three things has happened. It is what was there before: then the batch is written. It
is what this transaction would leave: then an attempt whose outcome was unknown has been committed. Or it is
something else: then another has taken the sink over, and here nothing is written any more. The memory is that
of `TransactionalSink`, in the same place.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from penstock.groups.marks import SINK
from penstock.spark.attempt import HOPELESS, Attempt, Limits, cause, remembered
from penstock.spark.cluster import Cluster, error_line
from penstock.spark.errors import NotWrittenError, SinkFencedError, SourceError
from penstock.spark.sink_state import Batch, SinkState, after, is_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.spark.options import Connection
    from penstock.spark.rows import Row

TRANSACTION_BYTES: Final = 64 * 1024 * 1024
"""Of how much a transaction is expected at most, for its time limit."""
TRY_MS: Final = 10_000
"""A producer that hears nothing for so long is replaced: some would wait for ever (see `Attempt`)."""
RETRY_PAUSE_S: Final = 0.2
MESSAGE_BYTES_MAX: Final = 1_000_000
"""As librdkafka has it."""


class HeldSink:
    def __init__(
        self, connection: Connection, name: str, *, message_bytes_max: int = MESSAGE_BYTES_MAX
    ) -> None:
        """Takes the sink over. Raises SourceError, as everything here does."""
        self.name = name
        self._message_bytes_max = message_bytes_max
        self._id = f"{SINK}.{name}"
        self._connection = connection
        self._cluster = Cluster(connection)
        self._where = f"sink {name!r} at {connection.bootstrap}"
        self._attempt: Attempt | None = None
        try:
            self._take_over()
        except KafkaException as error:
            raise SourceError(f"{self._where} cannot be taken over: {error_line(error)}") from error
        self._state = self._remembered()

    def has(self, batch: Batch) -> bool:
        """Whether it was written before; SinkFencedError if another run has taken over."""
        return not is_new(self._state, batch, self.name)

    def publish(self, batch: Batch, rows: Sequence[Row]) -> None:
        """One transaction with all of the rows, of which there must be at least one."""
        deadline = time.monotonic() + self._connection.timeout_s
        wanted = after(self._state, batch)
        while True:
            try:
                self._attempt = self._take_over()
                if self._is_written(wanted):
                    break
                self._write(self._attempt, rows, wanted)
                break
            except (KafkaException, NotWrittenError) as error:
                self._drop()
                found = cause(error)
                if found.code() in HOPELESS or time.monotonic() >= deadline:
                    raise SourceError(f"{self._where}: batch {batch.number}: {error_line(found)}") from error
            time.sleep(RETRY_PAUSE_S)
        self._attempt, self._state = None, wanted

    def close(self) -> None:
        """An open transaction is aborted, so that readers can go on."""
        self._drop()
        self._cluster.close()

    def _take_over(self) -> Attempt:
        quick = replace(self._connection, timeout_ms=min(TRY_MS, self._connection.timeout_ms))
        limits = Limits.of(self._connection, TRANSACTION_BYTES)
        attempt = Attempt(quick, self._id, limits, message_max_bytes=self._message_bytes_max)
        attempt.take_over()
        return attempt

    def _remembered(self) -> SinkState | None:
        return remembered(self._cluster, self._id, self.name)

    def _is_written(self, wanted: SinkState) -> bool:
        """Whether the transaction before was committed; SinkFencedError if another one was."""
        found = self._remembered()
        if found not in (wanted, self._state):
            raise SinkFencedError(self.name)
        return found == wanted

    def _write(self, attempt: Attempt, rows: Sequence[Row], wanted: SinkState) -> None:
        attempt.begin()
        for row in rows:
            attempt.sender.send_row(row)
        attempt.sender.finish()
        attempt.commit(wanted)

    def _drop(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.abort()
