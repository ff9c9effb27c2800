"""The parts of the Kafka transport that need no broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.client import (
    DisconnectedServerError,
    InsufficientReplicasError,
    InvalidTopicError,
    MessageTooLargeError,
    NotAuthorizedError,
    PenstockError,
    Producer,
    ServerError,
    TopicNotFoundError,
)
from penstock.client.kafka.cluster import Cluster, split_addresses
from penstock.client.kafka.failures import as_error
from tests.support.ports import free_port


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError.NOT_ENOUGH_REPLICAS, InsufficientReplicasError),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, InsufficientReplicasError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicNotFoundError),
        (KafkaError.TOPIC_EXCEPTION, InvalidTopicError),
        (KafkaError.MSG_SIZE_TOO_LARGE, MessageTooLargeError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorizedError),
        (KafkaError._ALL_BROKERS_DOWN, DisconnectedServerError),
        (KafkaError.UNKNOWN, ServerError),
    ],
)
def test_errors(code: int, error: type[PenstockError]) -> None:
    for cause in (KafkaError(code), KafkaException(KafkaError(code))):
        made = as_error(cause, "it did not work")
        assert type(made) is error
        assert str(made).startswith("it did not work: ")


def test_addresses() -> None:
    assert split_addresses("a:1, b,[::1]:2") == [("a", 1), ("b", 9092), ("::1", 2)]
    for bad in ("", "a:", "a:0", "a:65536", "a:b", "a b", ":1", "a:1,", "ftp://a:1", "::1:2"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            split_addresses(bad)


def test_nobody_there() -> None:
    with pytest.raises(DisconnectedServerError, match="Connection refused"):
        Producer("a", f"127.0.0.1:{free_port()}", timeout_s=0.3)


def test_what_passes_is_waited_for() -> None:
    codes = [KafkaError.NOT_COORDINATOR, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT]

    def request() -> str:
        if codes:
            raise KafkaException(KafkaError(codes.pop()))
        return "done"

    assert Cluster("127.0.0.1:1", timeout_s=30).ask(request, "it") == "done"


@pytest.mark.parametrize(
    ("code", "error", "again"),
    [
        (KafkaError.NOT_COORDINATOR, DisconnectedServerError, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicNotFoundError, True),
        (KafkaError.TOPIC_EXCEPTION, InvalidTopicError, False),
    ],
)
def test_what_does_not_pass_is_an_error(code: int, error: type[PenstockError], again: bool) -> None:
    asked = 0

    def request() -> None:
        nonlocal asked
        asked += 1
        raise KafkaException(KafkaError(code))

    with pytest.raises(error):
        Cluster("127.0.0.1:1", timeout_s=0.25).ask(request, "it")
    assert (asked > 1) == again
