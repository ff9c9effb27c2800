"""What the Kafka side of the gateway raises: typed, with a message that a user of the gateway understands.

An error says what is wrong with the request or with the cluster. What passes by itself, as the election of a
leader does, is waited for and never seen here.
"""

from __future__ import annotations


class KafkaClientError(Exception):
    """The base of all of them."""


class KafkaUnavailableError(KafkaClientError):
    """No broker, or not the one that is needed, answered within the limit. Trying again may help."""


class ProducerReplacedError(KafkaUnavailableError):
    """The producer that had the message is gone, and whether the message is stored is not known."""


class NotEnoughReplicasError(KafkaUnavailableError):
    """Fewer replicas are in sync than the topic asks for (`min.insync.replicas`)."""


class NotAllowedError(KafkaClientError):
    """The cluster's authorizer refuses the gateway."""


class UnknownTopicError(KafkaClientError):
    """There is no such topic."""

    def __init__(self, topic: str, message: str | None = None) -> None:
        super().__init__(topic, message)
        self.topic = topic
        self.message = message or f"there is no topic {topic!r}"

    def __str__(self) -> str:
        return self.message


class UnknownPartitionError(UnknownTopicError):
    """The topic has fewer partitions."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(topic, f"topic {topic!r} has no partition {partition}")
        self.args = (topic, partition)
        self.partition = partition


class OffsetOutOfRangeError(KafkaClientError):
    """The log begins after the offset, or ends before it. It holds `start` to `end` (exclusive)."""

    def __init__(self, topic: str, partition: int, offset: int, start: int, end: int) -> None:
        super().__init__(topic, partition, offset, start, end)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.start = start
        self.end = end

    def __str__(self) -> str:
        return (
            f"offset {self.offset} of {self.topic}-{self.partition} is out of range: "
            f"the log begins at {self.start} and ends before {self.end}"
        )


class TopicRecreatedError(OffsetOutOfRangeError):
    """The topic that was being read is gone; another one has its name. Its log is `start` to `end`."""

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} was deleted and created again; offset {self.offset} belongs to the old one"
        )


class TopicExistsError(KafkaClientError):
    """A topic of that name is there already."""


class InvalidTopicError(KafkaClientError):
    """The name breaks Kafka's rules."""


class InvalidConfigError(KafkaClientError):
    """No such setting, or not a value for it."""


class InvalidRequestError(KafkaClientError):
    """The cluster refuses what was asked for, such as more replicas than there are brokers."""


class MessageTooLargeError(KafkaClientError):
    """Larger than the topic's `max.message.bytes`, or than a producer may send."""


class UnknownGroupError(KafkaClientError):
    """There is no such consumer group."""
