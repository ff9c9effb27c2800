"""What a Publisher stores and a Subscriber gets, and by which names both are known."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from penstock.client.types import to_bytes, to_text

PUBLISHER_HEADER: Final = "penstock-publisher"
SEQ_HEADER: Final = "penstock-seq"
ID_CHARACTERS_MAX: Final = 200
UNKNOWN_OFFSET: Final = -1
PLAIN: Final = "".join(map(chr, range(ord("!"), 127))).replace("%", "")
"""What an id is made of as a part of a name; the rest is escaped with %."""

Partition = tuple[str, int]
Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Put:
    """A message that is stored: its number, and where it is."""

    seq: int
    offset: int
    """-1 for the repetition of a message so old that its place is no longer known."""
    partition: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was got. `str(message)` is its text."""

    topic: str
    partition: int
    offset: int
    value: bytes
    key: bytes | None = None
    timestamp: int | None = None
    """Milliseconds since 1970; None where the topic keeps no times."""
    publisher: str | None = None
    """The id of the Publisher that put it; None if it came another way."""
    seq: int | None = None
    """Its number among the messages of that publisher in the topic, from 1."""

    @property
    def text(self) -> str:
        """The value as a str; bytes that are not UTF-8 as for `Consumer.get_next`."""
        return to_text(self.value)

    @property
    def position(self) -> int:
        """Where its partition goes on after it: what `Subscriber(positions=…)` wants to know again."""
        return self.offset + 1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message on its way into a transaction."""

    topic: str
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def check_id(given: str, whose: str) -> str:
    """An id is a part of names that brokers keep and tools print."""
    if not isinstance(given, str):
        raise TypeError(f"the id of a {whose} is a str, not {given!r}")
    if not given or not given.isprintable() or len(given) > ID_CHARACTERS_MAX:
        raise ValueError(
            f"the id of a {whose} has 1 to {ID_CHARACTERS_MAX} printable characters, which {given!a} has not"
        )
    return given


def name_of(role: str, own_id: str) -> str:
    """The group and transactional id of a publisher or subscriber.

    librdkafka takes no group but in printable ASCII: everything else is escaped as in a URL.
    """
    return f"penstock.{role}.{quote(own_id, safe=PLAIN)}"


def check_topic(topic: str) -> str:
    if not isinstance(topic, str):
        raise TypeError(f"a topic is named by a str, not by {topic!r}")
    if not topic:
        raise ValueError("a topic has an empty name")
    to_bytes(topic)
    return topic


def place(message: Outgoing, indexes: Sequence[int]) -> Partition:
    """Messages with the same key go to the same partition, as librdkafka does it; the others to any."""
    number = secrets.randbelow(len(indexes)) if message.key is None else zlib.crc32(message.key)
    return message.topic, indexes[number % len(indexes)]


def headers_of(publisher: str, seq: int) -> tuple[tuple[str, bytes], ...]:
    return (PUBLISHER_HEADER, publisher.encode()), (SEQ_HEADER, str(seq).encode())


def origin_of(headers: Iterable[tuple[str, bytes | str | None]] | None) -> tuple[str | None, int | None]:
    """The publisher and the number in the headers; None for both unless they are what a Publisher writes."""
    found = {name: value for name, value in headers or () if isinstance(value, bytes)}
    publisher, seq = found.get(PUBLISHER_HEADER), found.get(SEQ_HEADER)
    if publisher is None or seq is None or not seq.isdigit():
        return None, None
    return to_text(publisher), int(seq)
