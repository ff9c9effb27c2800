"""librdkafka's settings and errors in the gateway's words."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from penstock.gateway.kafka.errors import (
    InvalidConfigError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaClientError,
    KafkaUnavailableError,
    MessageTooLargeError,
    NotAllowedError,
    NotEnoughReplicasError,
    ProducerReplacedError,
    TopicExistsError,
    UnknownGroupError,
    UnknownTopicError,
)

EMERGENCY: Final = 0
"""Its own log lines are switched off: each failure reaches a request, which is answered."""

MISSING: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
"""No such topic or partition."""

KINDS: Final[dict[int, type[KafkaClientError]]] = {
    KafkaError.TOPIC_ALREADY_EXISTS: TopicExistsError,
    KafkaError.TOPIC_EXCEPTION: InvalidTopicError,
    KafkaError.INVALID_CONFIG: InvalidConfigError,
    KafkaError.INVALID_PARTITIONS: InvalidRequestError,
    KafkaError.INVALID_REPLICATION_FACTOR: InvalidRequestError,
    KafkaError.INVALID_REQUEST: InvalidRequestError,
    KafkaError.POLICY_VIOLATION: InvalidRequestError,
    KafkaError._INVALID_ARG: InvalidRequestError,
    KafkaError.MSG_SIZE_TOO_LARGE: MessageTooLargeError,
    KafkaError.RECORD_LIST_TOO_LARGE: MessageTooLargeError,
    KafkaError.GROUP_ID_NOT_FOUND: UnknownGroupError,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: NotAllowedError,
    KafkaError.GROUP_AUTHORIZATION_FAILED: NotAllowedError,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: NotAllowedError,
    KafkaError.NOT_ENOUGH_REPLICAS: NotEnoughReplicasError,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: NotEnoughReplicasError,
}

REPLACED: Final = frozenset(
    {KafkaError._DESTROY, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL}
)
"""The client that was asked has gone; another one has taken its place."""

PASSING: Final = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
"""Brokers did not answer, or said that somebody else should."""


def client_config(bootstrap: str, rack: str | None) -> dict[str, Any]:
    config = {"bootstrap.servers": bootstrap, "client.id": "penstock-gateway", "log_level": EMERGENCY}
    # A broker that was away is tried again soon: requests wait for it.
    config |= {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 500, "socket.nagle.disable": True}
    return config | ({"client.rack": rack} if rack else {})


def error_of(error: KafkaError, topic: str = "") -> KafkaClientError:
    """`topic` is the one that was asked for, if it was one."""
    code = error.code()
    if code in MISSING:
        return UnknownTopicError(topic)
    text = (error.str() or error.name()).rstrip(".")
    if code in REPLACED:
        return ProducerReplacedError(f"the client was replaced: {text}")
    if code in PASSING:
        return KafkaUnavailableError(f"the brokers did not answer in time: {text}")
    return KINDS.get(code, KafkaClientError)(text)


def error_in(exception: KafkaException, topic: str = "") -> KafkaClientError:
    first = exception.args[0] if exception.args else None
    return error_of(first, topic) if isinstance(first, KafkaError) else KafkaClientError(str(exception))
