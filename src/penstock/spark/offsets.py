"""Offsets of a stream, and what a micro batch reads.

A stream's offset is the next offset to read of every partition it knows: `{"topic": {"0": 12}}`, topics by
name and partitions by number, so that equal offsets are equal text. Spark writes the end of every micro batch
to its checkpoint before the batch runs, and after a crash asks for the same range again: a range must depend
on nothing but its start and its end.

That is why a new partition takes two steps. The batch that first sees it ends at the partition's earliest
offset and reads nothing of it; the next batch starts there. So every start is in the checkpoint, and none is
asked of a broker that may have removed old records since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Partition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets = Mapping[Partition, int]


@dataclass(frozen=True)
class OffsetRange:
    """The records of one partition from `start` up to, not including, `end`."""

    partition: Partition
    start: int
    end: int


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(value: Any) -> dict[Partition, int]:
    """The offsets in a decoded `{"topic": {"0": 12}}`; ValueError if it is something else."""
    if not isinstance(value, dict):
        raise ValueError(f'{value!r} is not of the form {{"topic": {{"0": 12}}}}')
    found = {}
    for topic, offsets in value.items():
        if not isinstance(offsets, dict):
            raise ValueError(f"{topic!r} has no object of partitions and offsets")
        for partition, offset in offsets.items():
            if not partition.isascii() or not partition.isdigit():
                raise ValueError(f"{partition!r} of {topic!r} is not the number of a partition")
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise ValueError(f"{offset!r} of partition {partition} of {topic!r} is not an offset")
            found[Partition(topic, int(partition))] = offset
    return found


def ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """What lies between the two, one range for each partition that has something to read."""
    return [
        OffsetRange(partition, start[partition], offset)
        for partition, offset in sorted(end.items())
        if partition in start and start[partition] < offset
    ]


def bundles(found: Sequence[OffsetRange], count_max: int | None) -> list[tuple[OffsetRange, ...]]:
    """The ranges in at most so many groups of about the same size; each by itself without a limit.

    The longest goes first, to the group that has least.
    """
    if count_max is None or len(found) <= count_max:
        return [(single,) for single in found]
    groups: list[list[OffsetRange]] = [[] for _ in range(count_max)]
    sizes = [0] * count_max
    for longest in sorted(found, key=lambda single: single.start - single.end):
        least = sizes.index(min(sizes))
        groups[least].append(longest)
        sizes[least] += longest.end - longest.start
    return [tuple(group) for group in groups]


def plan(start: Offsets, earliest: Offsets, latest: Offsets, limit: int | None) -> dict[Partition, int]:
    """Where the next micro batch ends.

    `latest` has the partitions there are now. `earliest` has the first offset of those that are not in
    `start`, and may have it of others: then records before it count as gone, and the batch does not wait for
    them. A partition whose log has become shorter than `start` begins anew at its earliest offset.
    """
    end, begins = {}, {}
    for partition, last in latest.items():
        first = earliest.get(partition, 0)
        if partition not in start or start[partition] > last:
            end[partition] = min(first, last)
        else:
            begins[partition] = min(max(start[partition], first), last)
    shares = share({partition: latest[partition] - begin for partition, begin in begins.items()}, limit)
    return end | {partition: begin + shares[partition] for partition, begin in begins.items()}


def share(lags: Mapping[Partition, int], limit: int | None) -> dict[Partition, int]:
    """How many offsets each partition may read, in proportion to its lag, together `limit`.

    Every partition with a lag gets at least one, or a busy neighbour could keep it waiting for ever; so a
    limit below the number of such partitions is exceeded. What rounding leaves goes to the largest
    remainders.
    """
    total = sum(lags.values())
    if limit is None or total <= limit:
        return dict(lags)
    behind = sorted(partition for partition, lag in lags.items() if lag)
    spare, lag_left = max(0, limit - len(behind)), total - len(behind)
    shares = dict.fromkeys(lags, 0)
    remainders = []
    for partition in behind:
        whole, rest = divmod(spare * (lags[partition] - 1), lag_left) if lag_left else (0, 0)
        shares[partition] = 1 + whole
        remainders.append((-rest, partition))
    left = max(limit, len(behind)) - sum(shares.values())
    for _, partition in sorted(remainders)[:left]:
        shares[partition] += 1
    return shares


def losses(start: Offsets, latest: Offsets) -> list[str]:
    """What a stream at `start` can no longer read, in words: partitions and ends of logs that are gone."""
    lines = []
    for partition, offset in sorted(start.items()):
        if partition not in latest:
            lines.append(f"partition {partition} is gone, it was read up to offset {offset}")
        elif latest[partition] < offset:
            lines.append(
                f"partition {partition} was read up to offset {offset} and now ends at {latest[partition]}: "
                "deleted and created again?"
            )
    return lines
