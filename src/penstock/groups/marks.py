"""What a committed offset is, said by its metadata: a mark, then what belongs to it as JSON.

Consumer group offsets keep the small durable state of the client side too, since a transaction covers them
together with the messages it writes:

    penstock.subscription {"from": 3, …}  the position of a durable subscription
    penstock.publisher {"seq": 7, …}      how far a publisher has come in a topic
    penstock.sink {"batch": 3, …}         how far a Spark sink has come

An offset with one of these marks is somebody's only memory, so it never expires. Positions of readers are all
offsets but those of publishers and sinks: these stand behind the messages they wrote, not at what they read.
"""

from __future__ import annotations

import json
from typing import Any, Final

SUBSCRIPTION: Final = "penstock.subscription"
PUBLISHER: Final = "penstock.publisher"
SINK: Final = "penstock.sink"


def is_durable(metadata: str | None) -> bool:
    """Whether the offset stays however long nobody commits to its group."""
    return mark_of(metadata) in (SUBSCRIPTION, PUBLISHER, SINK)


def is_position(metadata: str | None) -> bool:
    """Whether somebody reads from there."""
    return mark_of(metadata) not in (PUBLISHER, SINK)


def mark_of(metadata: str | None) -> str | None:
    """The mark at the beginning of `metadata`, if it is one of those above."""
    word = (metadata or "").partition(" ")[0]
    return word if word in (SUBSCRIPTION, PUBLISHER, SINK) else None


def with_state(mark: str, state: dict[str, Any]) -> str:
    """The metadata that keeps `state` under `mark`."""
    return f"{mark} {json.dumps(state, separators=(',', ':'))}"


def state_of(metadata: str | None, mark: str) -> dict[str, Any] | None:
    """What `with_state` kept under `mark`; None where there is nothing of the kind."""
    if mark_of(metadata) != mark:
        return None
    try:
        state = json.loads((metadata or "").partition(" ")[2])
    except ValueError:
        return None
    return state if isinstance(state, dict) else None
