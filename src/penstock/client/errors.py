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


class DuplicateTopicNameError(PenstockError):
    """A topic of this name exists already."""


class TopicClusterDoesNotExistError(PenstockError):
    """No replicas serve this: there is no such topic, or the place is outside the map."""


class DataNotAvailableError(PenstockError):
    """Not everything that was asked for can be read now: nobody serves a part of the topic."""


class ParticipationRequiredError(DataNotAvailableError):
    """Traffic is for those who contribute: the car has not written a position of its own recently."""


class InvalidTopicError(PenstockError):
    """The name is not one that a topic can have."""


class InvalidMessageError(PenstockError):
    """The message or its key cannot be sent as it is, or one that was read is not what it should be."""


class InvalidPositionError(InvalidMessageError):
    """A position has a `field` that is missing or wrong, for this `reason`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


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


class SequenceGapError(PenstockError):
    """A message has a number that leaves some out. Put the one with the number `expected` first."""

    def __init__(self, topic: str, seq: int, expected: int) -> None:
        super().__init__(topic, seq, expected)
        self.topic = topic
        self.seq = seq
        self.expected = expected

    def __str__(self) -> str:
        return f"number {self.seq} in topic {self.topic!r} leaves some out: expected {self.expected}"


class OutcomeUnknownError(DisconnectedServerError):
    """The time limit is over, and whether the message is stored is not known.

    Putting it again with the number `seq` stores it if it is not, and nothing if it is. For what a Subscriber
    wrote, `seq` is None: it finds out by itself with the next call.
    """

    def __init__(self, what: str, seq: int | None = None) -> None:
        super().__init__(what, seq)
        self.what = what
        self.seq = seq

    def __str__(self) -> str:
        again = "" if self.seq is None else f"; put it again with number {self.seq}"
        return f"{self.what}{again}"


class PublisherFencedError(PenstockError):
    """Another publisher with the same id was made since: this one can put nothing any more."""


class SubscriberFencedError(PenstockError):
    """Another subscriber with the same id was made since: this one can get nothing any more."""


class MessagesLostError(PenstockError):
    """Messages were removed before the subscriber got them, by a limit of the topic or by somebody.

    They had offsets from `first` on and before `next`, where the subscriber goes on with its next call.
    """

    def __init__(self, topic: str, partition: int, first: int, next: int) -> None:  # noqa: A002 - `first`'s pair
        super().__init__(topic, partition, first, next)
        self.topic = topic
        self.partition = partition
        self.first = first
        self.next = next

    def __str__(self) -> str:
        where = f"partition {self.partition} of topic {self.topic!r}"
        if self.next < self.first:
            return f"{where} ends at offset {self.next}, before the position {self.first}"
        return f"{where} no longer has the messages from offset {self.first} to {self.next - 1}"
