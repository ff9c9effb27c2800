"""What a member of protocol type `consumer` subscribes to, read from its otherwise opaque metadata.

The coordinator needs it for two decisions: whose offsets may expire, and whose may be deleted. The metadata
begins with a version(2); versions above the newest known one only append fields, so they are read as that.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.serial import entity_reader
from kio.serial.errors import SerialError

if TYPE_CHECKING:
    from collections.abc import Iterable

CONSUMER_PROTOCOL_TYPE = "consumer"

# Version 0 is a prefix of every later version, and the topics are all that is asked for here.
_read = entity_reader(ConsumerProtocolSubscription)


def maybe_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of one subscription; None if the metadata is something else."""
    if len(metadata) < 2 or struct.unpack_from(">h", metadata)[0] < 0:
        return None
    try:
        subscription, _ = _read(metadata, 2)
    except (SerialError, ValueError, OverflowError, MemoryError):
        return None
    return frozenset(subscription.topics)


def maybe_union(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of several subscriptions; None if one of them cannot be read."""
    union: frozenset[str] = frozenset()
    for one in metadata:
        topics = maybe_topics(one)
        if topics is None:
            return None
        union |= topics
    return union
