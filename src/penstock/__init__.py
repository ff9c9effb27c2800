"""Penstock: a publish/subscribe log that speaks the Kafka protocol.

The client library is here by name, and imported when it is first used: the commands do without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client import AsyncConsumer as AsyncConsumer
    from penstock.client import AsyncProducer as AsyncProducer
    from penstock.client import ClosedError as ClosedError
    from penstock.client import Consumer as Consumer
    from penstock.client import ConsumerNotFoundError as ConsumerNotFoundError
    from penstock.client import DataNotAvailableError as DataNotAvailableError
    from penstock.client import Delivered as Delivered
    from penstock.client import DisconnectedServerError as DisconnectedServerError
    from penstock.client import DuplicateTopicNameError as DuplicateTopicNameError
    from penstock.client import InsufficientReplicasError as InsufficientReplicasError
    from penstock.client import InvalidMessageError as InvalidMessageError
    from penstock.client import InvalidPositionError as InvalidPositionError
    from penstock.client import InvalidTopicError as InvalidTopicError
    from penstock.client import Message as Message
    from penstock.client import MessagesLostError as MessagesLostError
    from penstock.client import MessageTooLargeError as MessageTooLargeError
    from penstock.client import NoMessageError as NoMessageError
    from penstock.client import NotAuthorizedError as NotAuthorizedError
    from penstock.client import OutcomeUnknownError as OutcomeUnknownError
    from penstock.client import ParticipationRequiredError as ParticipationRequiredError
    from penstock.client import PenstockError as PenstockError
    from penstock.client import Producer as Producer
    from penstock.client import Publisher as Publisher
    from penstock.client import PublisherFencedError as PublisherFencedError
    from penstock.client import Put as Put
    from penstock.client import SequenceGapError as SequenceGapError
    from penstock.client import ServerError as ServerError
    from penstock.client import Subscriber as Subscriber
    from penstock.client import SubscriberFencedError as SubscriberFencedError
    from penstock.client import TopicClusterDoesNotExistError as TopicClusterDoesNotExistError
    from penstock.client import TopicNotFoundError as TopicNotFoundError

__version__ = "0.1.0"

_CLIENT = frozenset(
    {
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
    }
)


def __getattr__(name: str) -> Any:
    if name in _CLIENT:
        return getattr(import_module("penstock.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_CLIENT})
