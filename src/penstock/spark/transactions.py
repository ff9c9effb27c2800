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
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.groups.marks import SINK
from penstock.spark.cluster import Cluster, client_settings, error_line, new_client
from penstock.spark.errors import NotWrittenError, OptionError, SinkFencedError, SourceError
from penstock.spark.sender import Sender
from penstock.spark.sink_state import Batch, SinkState, after, is_new, newest
from penstock.spark.staging import Staged, read_staged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.spark.options import Connection

LOG = logging.getLogger(__name__)

BYTES_PER_S_MIN: Final = 1024 * 1024
"""What brokers are at least expected to take."""
TRANSACTION_MS_MIN: Final = 60_000
TRANSACTION_MS_MAX: Final = 15 * 60_000
"""What brokers allow unless their transaction.max.timeout.ms says otherwise."""
SOCKET_MS_MAX: Final = 60_000
IDLE_MS_MAX: Final = 1_000
ABORT_S_MAX: Final = 10.0
RETRY_PAUSE_S: Final = 0.2
FENCED_MAX: Final = 5
"""Times, in one batch, after which somebody else clearly wants to have the sink."""
STATE_PARTITION: Final = 0

_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
_HOPELESS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._INVALID_ARG,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)
"""What comes again however often it is tried."""


@dataclass(frozen=True)
class Limits:
    """How long a batch may take: until it is given up, and each of its transactions."""

    patience_s: float
    transaction_ms: int

    @staticmethod
    def of(connection: Connection, size_bytes: int) -> Limits:
        sending_ms = size_bytes * 1000 // BYTES_PER_S_MIN
        # The last message may be acknowledged, and the end of the transaction answered, at the last moment.
        wanted = max(TRANSACTION_MS_MIN, 2 * connection.timeout_ms + sending_ms)
        chosen = connection.settings.get("transaction.timeout.ms", str(min(TRANSACTION_MS_MAX, wanted)))
        if not chosen.isdecimal():
            raise OptionError("kafka.transaction.timeout.ms", f"{chosen!r} is not a number of milliseconds")
        return Limits((connection.timeout_ms + sending_ms) / 1000, int(chosen))


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
            attempt = _Attempt(self._connection, self._id, limits)
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
                if _cause(error).code() in _FENCED:
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

    def _publish(self, attempt: _Attempt, batch: Batch, staged: Sequence[Staged], rivals: _Rivals) -> bool:
        attempt.take_over()
        state = self._state()
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

    def _state(self) -> SinkState | None:
        found = self._cluster.committed(self._id)
        return newest(((each.offset, each.metadata) for each in found if each.offset >= 0), self.name)

    def _overdue(self, error: KafkaException | NotWrittenError, limits: Limits) -> SourceError:
        return SourceError(
            f"sink {self.name!r}: the transaction took longer than {limits.transaction_ms} ms; write smaller "
            "batches (maxOffsetsPerTrigger), or set kafka.transaction.timeout.ms to more, within the "
            f"brokers' transaction.max.timeout.ms: {error_line(_cause(error))}"
        )

    def _judge(self, error: KafkaException | NotWrittenError, deadline: float, *, unsure: bool) -> None:
        """Raises what ends the batch; returns where another attempt may do better."""
        cause = _cause(error)
        if cause.code() not in _HOPELESS and time.monotonic() < deadline:
            return
        if isinstance(error, NotWrittenError):
            raise error
        outcome = "it is not known whether the batch is" if unsure else "the batch is not"
        where = f"at {self._connection.bootstrap}"
        raise SourceError(f"sink {self.name!r} {where}: {outcome} written: {error_line(cause)}") from error


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


def _cause(error: KafkaException | NotWrittenError) -> KafkaError:
    found = error.error if isinstance(error, NotWrittenError) else error.args[0]
    assert isinstance(found, KafkaError)
    return found


class _Attempt:
    """One producer and at most one transaction."""

    def __init__(self, connection: Connection, transactional_id: str, limits: Limits) -> None:
        self.limits = limits
        self.is_settled = False
        """Whether it is known what became of the attempts before."""
        self.is_committing = False
        """Whether it is not known what became of this one, should it fail."""
        self._connection = connection
        self._id = transactional_id
        self._began_at: float | None = None
        self.sender = Sender(
            connection,
            transactional_id=transactional_id,
            transaction_timeout_ms=limits.transaction_ms,
            message_timeout_ms=min(connection.timeout_ms, limits.transaction_ms),
            # Without it librdkafka takes the time of the transaction, and would wait that long for a broker
            # that is gone.
            socket_timeout_ms=min(SOCKET_MS_MAX, limits.transaction_ms),
            # librdkafka waits for ever for a group's coordinator that was restarted, until some connection
            # changes its state (its issues 5456 and 5511): one that is idle does so soon.
            connections_max_idle_ms=IDLE_MS_MAX,
        )

    @property
    def is_overdue(self) -> bool:
        """The coordinator has ended the transaction, or is about to."""
        began_at = self._began_at
        return began_at is not None and time.monotonic() - began_at > self.limits.transaction_ms / 1000

    def take_over(self) -> None:
        self.sender.producer.init_transactions(self._connection.timeout_s)

    def begin(self) -> None:
        self.sender.producer.begin_transaction()
        self._began_at = time.monotonic()

    def commit(self, state: SinkState) -> None:
        metadata = state.metadata()
        offsets = [
            TopicPartition(topic, STATE_PARTITION, state.count, metadata)
            for topic in sorted(self.sender.topics)
        ]
        # It joins nothing: it is the form in which the client takes the name of a group.
        settings = client_settings(self._connection, group_id=self._id, enable_auto_commit=False)
        producer, limit_s = self.sender.producer, self._connection.timeout_s
        with closing(new_client(Consumer, settings)) as group:
            producer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), limit_s)
        self.is_committing = True
        producer.commit_transaction(limit_s)

    def abort(self) -> None:
        """Lets readers go on. Where that fails, the next producer of this id does it, or the time limit."""
        if self._began_at is not None:
            with suppress(KafkaException):  # as it does when a commit is under way
                self.sender.producer.abort_transaction(ABORT_S_MAX)
