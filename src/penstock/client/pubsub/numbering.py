"""Which number a publisher's next message has, and which are stored already.

A publisher's messages in a topic are numbered from 1. The last number, and the places of the last few, are
kept in the metadata of an offset that is committed in the transaction of the message itself: the number is
there exactly if the message is.

`by` tells which life of the publisher wrote it. A publisher that was cut off and finds the handwriting of
another life has been replaced meanwhile, and must not take the other's number for its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.client.errors import SequenceGapError
from penstock.client.pubsub.messages import UNKNOWN_OFFSET, Put
from penstock.groups.marks import PUBLISHER, state_of, with_state

RECENT_MAX: Final = 16
"""So many places of messages are remembered."""
SEQ_MAX: Final = 2**63 - 1


class Plan(NamedTuple):
    """A put of several messages: the number of the first, and how many of them are stored already."""

    first: int
    stored: int


@dataclass(frozen=True, slots=True)
class Numbering:
    """How far a publisher has come in a topic."""

    partition: int
    seq: int = 0
    recent: tuple[tuple[int, int], ...] = ()
    """(number, offset) of the last messages, the oldest first."""
    by: str = ""

    def plan(self, topic: str, seq: int | None, count: int) -> Plan:
        """What to do with `count` messages from number `seq` on; SequenceGapError if some are left out."""
        if seq is None:
            return Plan(self.seq + 1, 0)
        if seq > self.seq + 1:
            raise SequenceGapError(topic, seq, self.seq + 1)
        return Plan(seq, min(count, self.seq + 1 - seq))

    def puts(self, first: int, count: int) -> list[Put]:
        """What is known of messages that are stored."""
        places = dict(self.recent)
        numbers = range(first, first + count)
        return [Put(number, places.get(number, UNKNOWN_OFFSET), self.partition) for number in numbers]

    def after(self, offsets: Sequence[int], by: str) -> Numbering:
        """With one more message at each of the offsets."""
        added = tuple(enumerate(offsets, self.seq + 1))
        recent = (*self.recent, *added)[-RECENT_MAX:]
        return Numbering(self.partition, self.seq + len(offsets), recent, by)

    def metadata(self) -> str:
        return with_state(PUBLISHER, {"seq": self.seq, "recent": self.recent, "by": self.by})


def newest(metadata: Mapping[int, str | None], default_partition: int) -> Numbering:
    """The state in the metadata of a topic's partitions. A publisher stays in the partition it began with."""
    found = [
        numbering
        for partition, text in metadata.items()
        if (numbering := _parse(partition, state_of(text, PUBLISHER))) is not None
    ]
    return max(found, key=lambda each: each.seq, default=Numbering(default_partition))


def _parse(partition: int, state: dict[str, Any] | None) -> Numbering | None:
    if state is None or not isinstance(state.get("seq"), int):
        return None
    recent = tuple((int(seq), int(offset)) for seq, offset in state.get("recent", ()))
    return Numbering(partition, state["seq"], recent, str(state.get("by", "")))


def check_seq(seq: int | None) -> None:
    if seq is None:
        return
    if not isinstance(seq, int) or isinstance(seq, bool):
        raise TypeError(f"the number of a message is an int, not {seq!r}")
    if not 1 <= seq <= SEQ_MAX:
        raise ValueError(f"numbers of messages begin at 1, not at {seq}")
