"""What can go wrong for a user of the library. Every error is a PenstockError and says what happened."""

from __future__ import annotations


class PenstockError(Exception):
    """The base of all errors of the library."""


class NoMessageError(PenstockError):
    """Nothing is left to be read in the topic: every message was got already."""


class DisconnectedServerError(PenstockError):
    """No broker or gateway answered within the time limit.

    A `send` that ends so may have stored its message or not: the answer is what was lost.
    """


class InsufficientReplicasError(PenstockError):
    """Too few replicas of the topic are in sync to promise that the message survives."""


class TopicNotFoundError(PenstockError):
    """The topic is not one of those that this client was made for, or it was deleted."""


class InvalidTopicError(PenstockError):
    """The name is not one that a topic can have."""


class InvalidMessageError(PenstockError):
    """The message or its key cannot be sent as it is."""


class MessageTooLargeError(InvalidMessageError):
    """The message has more bytes than the topic or the gateway takes."""


class ConsumerNotFoundError(PenstockError):
    """The gateway knows no consumer with this id, or it is a consumer of another topic."""


class NotAuthorizedError(PenstockError):
    """The server wants a token or rights that this client does not have."""


class ServerError(PenstockError):
    """The server refused for another reason, or answered what cannot be understood."""


class ClosedError(PenstockError):
    """The client is used before it was opened, or after it was closed."""
