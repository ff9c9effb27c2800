"""What a reader comes to next: records, or poison, which is batches whose records are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.wire.compression import TooLargeError

if TYPE_CHECKING:
    from penstock.kafka.records import Fetched, Undecodable


class Front(NamedTuple):
    poison: list[Undecodable]
    next_offset: int
    """Behind it, and behind what is not for readers: of the first record, if there is one."""


def front_of(fetched: Fetched, told: int | None = None) -> Front:
    """A batch that is too large to be unpacked here is none of ours, but for the one that was `told` of."""
    readable = [record.offset for record in fetched.records[:1]]
    readable += [
        batch.offset
        for batch in fetched.undecodable
        if isinstance(batch.reason, TooLargeError) and batch.offset != told
    ]
    first = min(readable, default=fetched.next_offset)
    return Front([batch for batch in fetched.undecodable if batch.offset < first], first)
