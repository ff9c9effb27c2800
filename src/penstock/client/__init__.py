"""The client library: producers and consumers of topics, over the Kafka protocol or over HTTP.

`Producer` and `Consumer` block; `AsyncProducer` and `AsyncConsumer` have the same methods as coroutines. They
are in front of a transport (`types.py` says what that is): `kafka/` with librdkafka, for Penstock and Apache
Kafka alike, and `http/` for the topic-queue endpoints of a gateway. Every error is a PenstockError.
"""

from __future__ import annotations

from penstock.client.async_consumer import AsyncConsumer
from penstock.client.async_producer import AsyncProducer
from penstock.client.consumer import Consumer
from penstock.client.errors import (
    ClosedError,
    ConsumerNotFoundError,
    DataNotAvailableError,
    DisconnectedServerError,
    DuplicateTopicNameError,
    InsufficientReplicasError,
    InvalidMessageError,
    InvalidPositionError,
    InvalidTopicError,
    MessageTooLargeError,
    NoMessageError,
    NotAuthorizedError,
    ParticipationRequiredError,
    PenstockError,
    ServerError,
    TopicClusterDoesNotExistError,
    TopicNotFoundError,
)
from penstock.client.producer import Producer
from penstock.client.types import Delivered

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "ClosedError",
    "Consumer",
    "ConsumerNotFoundError",
    "DataNotAvailableError",
    "Delivered",
    "DisconnectedServerError",
    "DuplicateTopicNameError",
    "InsufficientReplicasError",
    "InvalidMessageError",
    "InvalidPositionError",
    "InvalidTopicError",
    "MessageTooLargeError",
    "NoMessageError",
    "NotAuthorizedError",
    "ParticipationRequiredError",
    "PenstockError",
    "Producer",
    "ServerError",
    "TopicClusterDoesNotExistError",
    "TopicNotFoundError",
]
