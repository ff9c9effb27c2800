"""Where a reader begins: at an offset, at the beginning or the end, or where it was when it lost us."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.errors import UnknownPartitionError

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader import LogReader
    from penstock.kafka.records import Offsets

OFFSET_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1

Start = int | Literal["beginning", "end"]
Positions = dict[int, int]
"""Partition -> the offset to be read next."""


def parse_start(text: str | None, default: Start) -> Start:
    if not text:
        return default
    if text == "beginning":
        return "beginning"
    if text == "end":
        return "end"
    return parse_number(text, "offset", OFFSET_MAX, also=" or beginning or end")


def parse_partition(text: str | None) -> int | None:
    return parse_number(text, "partition", INT32_MAX) if text else None


def parse_number(text: str, name: str, largest: int, also: str = "") -> int:
    # 19 digits are the longest number of 64 bits.
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= largest):
        raise ApiFailure(400, f"{name} must be a number from 0 to {largest}{also}")
    return int(text)


def parse_event_id(text: str) -> Positions:
    """`PARTITION:OFFSET`, of several partitions with commas between; what was seen last of each."""
    positions: Positions = {}
    for part in text.split(","):
        partition, colon, offset = part.strip().partition(":")
        seen = -1 if offset == "-1" else parse_number(offset, "Last-Event-ID", OFFSET_MAX - 1)
        if not colon:
            raise ApiFailure(400, "Last-Event-ID must have the form PARTITION:OFFSET")
        positions[parse_number(partition, "Last-Event-ID", INT32_MAX)] = seen + 1
    return positions


def event_id(positions: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset - 1}" for partition, offset in positions.items())


async def find_positions(
    reader: LogReader, topic: str, partition: int | None, start: Start, seen: Mapping[int, int]
) -> Positions:
    """Checked against the log; `seen` counts more than `start` where it has the partition."""
    partitions = await reader.partitions(topic)
    if partition is not None:
        if partition not in partitions:
            raise UnknownPartitionError(topic, partition)
        partitions = [partition]
    if isinstance(start, int) and len(partitions) > 1:
        raise ApiFailure(400, f"offset {start} of which partition? {topic!r} has {len(partitions)}")
    found = await asyncio.gather(*(reader.offsets(topic, each) for each in partitions))
    return {
        each: choose(topic, each, seen.get(each, start), offsets)
        for each, offsets in zip(partitions, found, strict=True)
    }


def choose(topic: str, partition: int, start: Start, offsets: Offsets) -> int:
    if start == "beginning":
        return offsets.start
    if start == "end":
        return offsets.end
    if not offsets.start <= start <= offsets.end:
        raise ApiFailure(
            400,
            f"offset {start} of {topic}-{partition} is out of range: "
            f"the log begins at {offsets.start} and ends before {offsets.end}",
            start=offsets.start,
            end=offsets.end,
        )
    return start
