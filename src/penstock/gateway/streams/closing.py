"""Why a WebSocket was closed: codes, and reasons that fit into a close frame.

Codes from 4000 on are for applications; these are 4000 and the HTTP status of the same trouble.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.gateway.kafka.errors import (
    KafkaClientError,
    KafkaUnavailableError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UnknownTopicError,
)
from penstock.gateway.streams.following import StalledError

INTERNAL_ERROR: Final = 1011
TRY_AGAIN_LATER: Final = 1013
TOPIC_GONE: Final = 4404
TOPIC_RECREATED: Final = 4409
OUT_OF_RANGE: Final = 4416

REASON_BYTES_MAX: Final = 123


class Closing(NamedTuple):
    code: int
    reason: str


def closing_of(error: Exception) -> Closing:
    return Closing(_code_of(error), fitting(str(error)))


def _code_of(error: Exception) -> int:
    match error:
        case StalledError() | KafkaUnavailableError():
            return TRY_AGAIN_LATER
        case UnknownTopicError():
            return TOPIC_GONE
        case TopicRecreatedError():
            return TOPIC_RECREATED
        case OffsetOutOfRangeError():
            return OUT_OF_RANGE
    assert isinstance(error, KafkaClientError)
    return INTERNAL_ERROR


def fitting(reason: str) -> str:
    """As much of it as a close frame can carry."""
    encoded = reason.encode()
    if len(encoded) <= REASON_BYTES_MAX:
        return reason
    return encoded[: REASON_BYTES_MAX - 3].decode(errors="ignore") + "…"
