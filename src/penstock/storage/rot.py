"""Finding rot: stored batches that are not what was written.

A batch's CRC covers all but its first 17 bytes. Of these, a wrong length breaks the CRC, and a wrong base
offset the order of offsets, also against what the index says of where a stretch of batches begins and ends:
where no offset is missing, only one fits. Two things go unnoticed: a wrong base offset that still fits into a
gap that compaction left, and a wrong leader epoch that still ascends.

Every first read pays for `check_batches`; `find_damage` is for the stretch in which that found something.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import NamedTuple

from crc32c import crc32c

from penstock.storage.scan import find_valid_batch
from penstock.wire.batch import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    BatchError,
    BatchHeader,
    check_batch,
)

_HEAD = struct.Struct(">qiibI2xi")  # base_offset, batch_length, leader_epoch, magic, crc, last_offset_delta

UNKNOWN_OFFSET = 1 << 62
"""Beyond every offset: where nothing whole follows."""


class Stretch(NamedTuple):
    """Bytes of a segment between two places where a batch begins, and the offsets that are due there."""

    start: int
    end: int
    first_offset: int
    end_offset: int


class Damage(NamedTuple):
    """Bytes of a segment that are not handed out."""

    start: int
    end: int
    first_offset: int
    """The offset that is due where the damage begins."""
    end_offset: int
    """The next one that is whole."""
    reason: str


def check_batches(view: memoryview, next_offset: int) -> tuple[int, int]:
    """(end of the last batch before the first that is not good, or not in the view as a whole; the offset
    that is due there)."""
    at, latest, size, unpack = 0, -1, len(view), _HEAD.unpack_from
    while at + HEADER_SIZE <= size:
        base_offset, length, epoch, magic, crc, last_delta = unpack(view, at)
        end = at + length + LENGTH_PREFIX_SIZE
        if (
            magic != 2
            or not at + HEADER_SIZE <= end <= size
            or base_offset < next_offset
            or epoch < latest
            or last_delta < 0
            or crc32c(view[at + CRC_START : end]) != crc
        ):
            break
        at, next_offset, latest = end, base_offset + last_delta + 1, epoch
    return at, next_offset


def find_damage(data: bytes | memoryview, stretch: Stretch) -> list[Damage]:
    """All that lies between batches that are to be believed; `data` may end before the stretch does."""
    view = memoryview(data)
    believed = _without_liars(_sound_batches(view, stretch), stretch)
    end, next_offset = 0, stretch.first_offset
    damage = []
    for position, header in [*believed, (stretch.end - stretch.start, None)]:
        if position > end:
            due = header.base_offset if header is not None else stretch.end_offset
            reason = _reason(view[end:])
            damage.append(Damage(stretch.start + end, stretch.start + position, next_offset, due, reason))
        if header is not None:
            end, next_offset = position + header.size, header.next_offset
    return damage


def _sound_batches(view: memoryview, stretch: Stretch) -> list[tuple[int, BatchHeader]]:
    """Every batch with a valid CRC, found by the length of the one before, or else by looking for it."""

    def read(size: int, position: int) -> bytes:
        return bytes(view[position : position + size])

    sound = []
    at, size = 0, len(view)
    while at + HEADER_SIZE <= size:
        header = _maybe_batch(view[at:])
        if header is None:
            behind = at + LENGTH_PREFIX_SIZE + int.from_bytes(view[at + 8 : at + 12], signed=True)
            if behind <= at or (behind != size and _maybe_batch(view[behind:]) is None):
                found = find_valid_batch(read, at + 1, size, stretch.first_offset)
                behind = found[0] if found else size
            at = behind
        else:
            sound.append((at, header))
            at += header.size
    return sound


def _maybe_batch(view: memoryview) -> BatchHeader | None:
    try:
        return check_batch(view)
    except BatchError:
        return None


def _without_liars(sound: list[tuple[int, BatchHeader]], stretch: Stretch) -> list[tuple[int, BatchHeader]]:
    """Of two neighbours that contradict each other only one that continues its other side is believed."""
    ends = [stretch.first_offset, *(header.next_offset for _, header in sound)]
    starts = [*(header.base_offset for _, header in sound), stretch.end_offset]
    liars = set()
    for at, (end, start) in enumerate(zip(ends, starts, strict=True)):
        if end <= start:
            continue
        before, after = at - 1, at
        if before >= 0 and starts[before] != ends[before]:
            liars.add(before)
        if after < len(sound) and ends[after + 1] != starts[after + 1]:
            liars.add(after)
        if not liars & {before, after}:
            liars |= {before, after}
    for at, ((_, one), (_, other)) in enumerate(pairwise(sound)):
        if one.partition_leader_epoch > other.partition_leader_epoch:
            liars |= {at, at + 1}
    return [each for at, each in enumerate(sound) if at not in liars and each[1].last_offset_delta >= 0]


def _reason(view: memoryview) -> str:
    try:
        header = check_batch(view)
    except BatchError as error:
        return error.reason
    return f"offset {header.base_offset} of epoch {header.partition_leader_epoch} does not belong here"
