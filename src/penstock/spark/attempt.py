"""What is common to the ways of writing in transactions: one producer, and what its sink remembers."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.spark.cluster import Cluster, client_settings, new_client
from penstock.spark.errors import NotWrittenError, OptionError
from penstock.spark.sender import Sender
from penstock.spark.sink_state import SinkState, newest

if TYPE_CHECKING:
    from penstock.spark.options import Connection

BYTES_PER_S_MIN: Final = 1024 * 1024
"""What brokers are at least expected to take."""
TRANSACTION_MS_MIN: Final = 60_000
TRANSACTION_MS_MAX: Final = 15 * 60_000
"""What brokers allow unless their transaction.max.timeout.ms says otherwise."""
SOCKET_MS_MAX: Final = 60_000
IDLE_MS_MAX: Final = 1_000
ABORT_S_MAX: Final = 10.0
STATE_PARTITION: Final = 0

FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
HOPELESS: Final = frozenset(
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


def remembered(cluster: Cluster, group: str, name: str) -> SinkState | None:
    """What the sink of this name has in the offsets of its group."""
    found = cluster.committed(group)
    return newest(((each.offset, each.metadata) for each in found if each.offset >= 0), name)


def cause(error: KafkaException | NotWrittenError) -> KafkaError:
    found = error.error if isinstance(error, NotWrittenError) else error.args[0]
    assert isinstance(found, KafkaError)
    return found


class Attempt:
    """One producer, and one transaction at a time."""

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        limits: Limits,
        **own: Any,
    ) -> None:
        """Further keywords are settings of the producer, as those of `Sender`."""
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
            **own,
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
        self._began_at, self.is_committing = None, False

    def abort(self) -> None:
        """Lets readers go on. Where that fails, the next producer of this id does it, or the time limit."""
        if self._began_at is not None:
            with suppress(KafkaException):  # as it does when a commit is under way
                self.sender.producer.abort_transaction(ABORT_S_MAX)
