"""The client library: producers and consumers of topics, over the Kafka protocol or over HTTP.

`Producer` and `Consumer` block; `AsyncProducer` and `AsyncConsumer` have the same methods as coroutines. They
are in front of a transport (`types.py` says what that is): `kafka/` with librdkafka, for Penstock and Apache
Kafka alike, and `http/` for the topic-queue endpoints of a gateway. Every error is a PenstockError.

`Publisher` and `Subscriber` are the reliable publish/subscribe, over the Kafka protocol only: `pubsub/`
decides, `kafka/publisher.py` and `kafka/subscriber.py` do it with transactions.
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
    MessagesLostError,
    MessageTooLargeError,
    NoMessageError,
    NotAuthorizedError,
    OutcomeUnknownError,
    ParticipationRequiredError,
    PenstockError,
    PublisherFencedError,
    SequenceGapError,
    ServerError,
    SubscriberFencedError,
    TopicClusterDoesNotExistError,
    TopicNotFoundError,
)
from penstock.client.producer import Producer
from penstock.client.publisher import Publisher
from penstock.client.pubsub.messages import Message, Put
from penstock.client.subscriber import Subscriber
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
    "Message",
    "MessageTooLargeError",
    "MessagesLostError",
    "NoMessageError",
    "NotAuthorizedError",
    "OutcomeUnknownError",
    "ParticipationRequiredError",
    "PenstockError",
    "Producer",
    "Publisher",
    "PublisherFencedError",
    "Put",
    "SequenceGapError",
    "ServerError",
    "Subscriber",
    "SubscriberFencedError",
    "TopicClusterDoesNotExistError",
    "TopicNotFoundError",
]
