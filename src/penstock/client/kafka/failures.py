"""Kafka's error codes as the library's errors."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from penstock.client.errors import (
    DisconnectedServerError,
    InsufficientReplicasError,
    InvalidMessageError,
    InvalidTopicError,
    MessageTooLargeError,
    NotAuthorizedError,
    PenstockError,
    ServerError,
    TopicNotFoundError,
)

UNKNOWN_TOPIC: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
SILENT: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._DESTROY_BROKER,
    }
)
"""How librdkafka says that nobody answered."""

PASSING: Final = SILENT | {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError._NOENT,  # an AdminClient that knows of no leader
}
"""What passes by itself when a broker has restarted or a leader was elected."""

_KINDS: Final[dict[int, type[PenstockError]]] = {
    **dict.fromkeys(PASSING, DisconnectedServerError),
    **dict.fromkeys(UNKNOWN_TOPIC, TopicNotFoundError),
    KafkaError.NOT_ENOUGH_REPLICAS: InsufficientReplicasError,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: InsufficientReplicasError,
    KafkaError.TOPIC_EXCEPTION: InvalidTopicError,
    KafkaError.MSG_SIZE_TOO_LARGE: MessageTooLargeError,
    KafkaError.RECORD_LIST_TOO_LARGE: MessageTooLargeError,
    KafkaError.INVALID_RECORD: InvalidMessageError,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: NotAuthorizedError,
    KafkaError.GROUP_AUTHORIZATION_FAILED: NotAuthorizedError,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: NotAuthorizedError,
    KafkaError.SASL_AUTHENTICATION_FAILED: NotAuthorizedError,
    KafkaError._AUTHENTICATION: NotAuthorizedError,
}


def passes(error: KafkaError | KafkaException) -> bool:
    """Whether the same request may succeed when it is made again."""
    found = _kafka_error(error)
    if found is None or found.code() in UNKNOWN_TOPIC:
        return False
    return found.code() in PASSING or found.retriable()


def as_error(error: KafkaError | KafkaException, what: str) -> PenstockError:
    """The library's error for Kafka's; `what` could not be done."""
    return _KINDS.get(error_code(error), ServerError)(f"{what}: {error_line(error)}")


def error_code(error: KafkaError | KafkaException) -> int:
    found = _kafka_error(error)
    return KafkaError.UNKNOWN if found is None else found.code()


def error_line(error: KafkaError | KafkaException) -> str:
    found = _kafka_error(error)
    if found is None:
        return str(error)
    text = (found.str() or "").rstrip(".")
    return f"{text} ({found.name()})" if text else found.name()


def _kafka_error(error: KafkaError | KafkaException) -> KafkaError | None:
    first = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return first if isinstance(first, KafkaError) else None
