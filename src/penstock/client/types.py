"""What both transports agree on: their interface, and how arguments and messages are read.

A transport moves bytes. It is called from any number of threads, checks nothing that the classes in front of
it have checked, and raises PenstockError only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock.client.errors import InvalidMessageError, TopicNotFoundError

if TYPE_CHECKING:
    from concurrent.futures import Future

DEFAULT_BROKER: Final = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S: Final = 30.0
TIMEOUT_S_MAX: Final = 86_400.0

_ENCODING: Final = "utf-8"
_FOREIGN_BYTES: Final = "surrogateescape"


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where an acknowledged message is stored."""

    topic: str
    partition: int
    offset: int


class ProducerTransport(Protocol):
    def send(self, topic: str, message: bytes, key: bytes | None) -> Delivered:
        """Blocks until the message is acknowledged."""

    def submit(self, topic: str, message: bytes, key: bytes | None) -> Future[Delivered]:
        """Never blocks; BufferError when too much is on its way already."""

    def close(self) -> None: ...


class ConsumerTransport(Protocol):
    @property
    def ids(self) -> Mapping[str, int]:
        """The consumer's id for each topic."""

    def remember(self) -> None:
        """Somebody has seen the ids: from now on every position must survive this process."""

    def has_next(self, topic: str) -> bool: ...

    def get_next(self, topic: str) -> bytes:
        """The next message, which no later call returns; NoMessageError when there is none."""

    def size(self, topic: str) -> int: ...

    def close(self) -> None: ...


def topic_names(topics: str | Iterable[str]) -> tuple[str, ...]:
    """The topics without repetitions. A single name is taken for itself, not for its letters."""
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    if not names:
        raise ValueError("no topic is given")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a topic is named by a str, not by {name!r}")
        if not name:
            raise ValueError("a topic has an empty name")
    return names


def consumer_ids(topics: tuple[str, ...], given: int | Mapping[str, int]) -> dict[str, int]:
    """The id for each topic."""
    ids = dict(given) if isinstance(given, Mapping) else dict.fromkeys(topics, given)
    if missing := [topic for topic in topics if topic not in ids]:
        raise ValueError(f"no id is given for topic {missing[0]!r}")
    for number in ids.values():
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"the id of a consumer is an int, not {number!r}")
        if number < 1:
            raise ValueError(f"the id of a consumer is positive, not {number}")
    return {topic: ids[topic] for topic in topics}


def single_id(ids: Mapping[str, int]) -> int:
    distinct = set(ids.values())
    if len(distinct) > 1:
        raise ValueError("this consumer has an id for each of its topics: use ids in place of id")
    return distinct.pop()


def is_http(broker: str) -> bool:
    return broker.lower().startswith(("http://", "https://"))


def to_bytes(text: str | bytes) -> bytes:
    """A str as UTF-8. What `to_text` made of bytes that are not UTF-8 becomes those bytes again."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"a message is str or bytes, not {type(text).__name__}")
    try:
        return text.encode(_ENCODING, _FOREIGN_BYTES)
    except UnicodeEncodeError as error:
        raise InvalidMessageError(f"not a text that UTF-8 can hold: {error}") from error


def to_text(data: bytes) -> str:
    """Any bytes as a str, without loss: see `to_bytes`."""
    return data.decode(_ENCODING, _FOREIGN_BYTES)


def require_topic(topic: str, topics: tuple[str, ...]) -> None:
    if topic not in topics:
        raise TopicNotFoundError(f"{topic!r} is not one of the topics: {', '.join(topics)}")


def check_timeout(timeout_s: float) -> float:
    if not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise ValueError(f"timeout_s is more than 0 and at most {TIMEOUT_S_MAX:g}, not {timeout_s!r}")
    return timeout_s
