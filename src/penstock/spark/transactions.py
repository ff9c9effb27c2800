"""Staged rows into topics, in one transaction that also records which batch they are.

A batch is written by a producer that has just taken over the sink's transactional id: whatever an earlier one
left open is decided by then, and whoever still uses the id is fenced off. What the sink remembers therefore
stands still, and says whether the batch is there. If it is not, one transaction brings all of its rows and
the memory that it is there.

When something fails and may pass, or when it is not known what became of a commit, the same begins again from
the start, with a new producer; the memory tells whether there is anything left to do. So it does when another
producer has fenced this one off: that may have been a run that was itself too late, and learned it then. Who
is recorded meanwhile has won.

A transaction cannot be made to last longer than what was said at its beginning, and holds up readers of
committed data until it ends, even if nobody is left to end it. So its time limit fits the size of the batch.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from penstock.groups.marks import SINK
from penstock.spark.attempt import FENCED, HOPELESS, Attempt, Limits, cause, remembered
from penstock.spark.cluster import Cluster, error_line
from penstock.spark.errors import NotWrittenError, SinkFencedError, SourceError
from penstock.spark.sink_state import Batch, SinkState, after, is_new
from penstock.spark.staging import Staged, read_staged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.spark.options import Connection

LOG = logging.getLogger(__name__)

RETRY_PAUSE_S: Final = 0.2
FENCED_MAX: Final = 5
"""Times, in one batch, after which somebody else clearly wants to have the sink."""


class TransactionalSink:
    """The sink of a name; everything is done on the driver."""

    def __init__(self, connection: Connection, topic: str | None, name: str) -> None:
        self.name = name
        self._connection = connection
        self._topic = topic
        self._id = f"{SINK}.{name}"
        self._cluster = Cluster(connection)

    def publish(self, batch: Batch, staged: Sequence[Staged]) -> bool:
        """Writes the rows unless they are there; whether it did."""
        limits = Limits.of(self._connection, sum(each.bytes for each in staged))
        deadline = time.monotonic() + limits.patience_s
        rivals = _Rivals(self.name, batch)
        unsure = False
        while True:
            attempt = Attempt(self._connection, self._id, limits)
            try:
                return self._publish(attempt, batch, staged, rivals)
            except (KafkaException, NotWrittenError) as error:
                overdue = attempt.is_overdue
                attempt.abort()
                if overdue and not attempt.is_committing:
                    raise self._overdue(error, limits) from error
                if attempt.is_committing and not unsure:  # there is always time to find out
                    deadline = max(deadline, time.monotonic() + self._connection.timeout_s)
                unsure = attempt.is_committing or (unsure and not attempt.is_settled)
                if cause(error).code() in FENCED:
                    rivals.fenced(error)
                else:
                    self._judge(error, deadline, unsure=unsure)
            except BaseException:
                attempt.abort()
                raise
            time.sleep(RETRY_PAUSE_S * random.uniform(0.5, 1.5))  # noqa: S311 - rivals must not keep step

    def forget(self) -> None:
        """Removes what the sink remembers, once that is settled: nobody will ask for it again."""
        try:
            self._cluster.committed(self._id)
            self._cluster.delete_group(self._id)
        except SourceError as error:  # the rows are there; what stays is a group that nobody uses
            LOG.warning("%s", error)

    def _publish(self, attempt: Attempt, batch: Batch, staged: Sequence[Staged], rivals: _Rivals) -> bool:
        attempt.take_over()
        state = remembered(self._cluster, self._id, self.name)
        attempt.is_settled = True
        rivals.check(state)
        if not is_new(state, batch, self.name):
            return False
        attempt.begin()
        for each in staged:
            for rows in read_staged(each):
                attempt.sender.send(rows, self._topic)
        attempt.sender.finish()
        attempt.commit(after(state, batch))
        return True

    def _overdue(self, error: KafkaException | NotWrittenError, limits: Limits) -> SourceError:
        return SourceError(
            f"sink {self.name!r}: the transaction took longer than {limits.transaction_ms} ms; write smaller "
            "batches (maxOffsetsPerTrigger), or set kafka.transaction.timeout.ms to more, within the "
            f"brokers' transaction.max.timeout.ms: {error_line(cause(error))}"
        )

    def _judge(self, error: KafkaException | NotWrittenError, deadline: float, *, unsure: bool) -> None:
        """Raises what ends the batch; returns where another attempt may do better."""
        found = cause(error)
        if found.code() not in HOPELESS and time.monotonic() < deadline:
            return
        if isinstance(error, NotWrittenError):
            raise error
        outcome = "it is not known whether the batch is" if unsure else "the batch is not"
        where = f"at {self._connection.bootstrap}"
        raise SourceError(f"sink {self.name!r} {where}: {outcome} written: {error_line(found)}") from error


class _Rivals:
    """Whether this run still has the sink when others try to take it over while it writes a batch."""

    def __init__(self, name: str, batch: Batch) -> None:
        self._name = name
        self._batch = batch
        self._at_first: list[SinkState | None] = []
        self._fenced = 0

    def check(self, state: SinkState | None) -> None:
        """With what is remembered at the beginning of each attempt."""
        if not self._at_first:
            self._at_first.append(state)
        elif state is not None and state != self._at_first[0] and state.last.run != self._batch.run:
            raise SinkFencedError(self._name)

    def fenced(self, error: KafkaException | NotWrittenError) -> None:
        self._fenced += 1
        if self._fenced >= FENCED_MAX:
            raise SinkFencedError(self._name) from error
