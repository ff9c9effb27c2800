"""What `penstock cluster move` is about to change: pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.cli.cluster_reassignments import Replicas, Sizes, ids
from penstock.cli.output import Cell, WrongUsage, counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.cli.cluster_reassignments import Ongoing

NO_LEADER = -1
MIN_INSYNC = "min.insync.replicas"


class Minimum(NamedTuple):
    """min.insync.replicas of a topic."""

    value: int
    is_default: bool

    def with_replicas(self, count: int) -> int:
        """Penstock's default is the majority of the replicas, so it falls with their number."""
        return min(self.value, count // 2 + 1) if self.is_default else self.value


class Move(NamedTuple):
    partition: int
    leader: int | None
    replicas: Replicas
    target: Replicas
    adding: Replicas = ()
    """Those that are copied to."""
    size_bytes: int = 0
    """Of all copies."""
    note: str | None = None
    is_there: bool = False
    """It has these replicas, and another one of them leads."""

    def bytes_left(self, sizes: Sizes, leader: int) -> int:
        whole = sizes.get((leader, self.partition), 0)
        return sum(max(0, whole - sizes.get((broker, self.partition), 0)) for broker in self.adding)

    def as_json(self, failure: str | None) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "leader": self.leader,
            "replicas": list(self.replicas),
            "new_replicas": list(self.target),
            "bytes": self.size_bytes,
            "note": self.note,
            "error": failure,
        }


def parse_ids(text: str) -> Replicas:
    """`3,1,2`, or WrongUsage."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        raise WrongUsage(f"--to: {text!r} is not a list of brokers of the form ID,ID,…")
    found = tuple(map(int, parts))
    if len(set(found)) < len(found):
        raise WrongUsage(f"--to: {text!r} has a broker more than once")
    return found


def plan(
    partitions: Mapping[int, Any],
    ongoing: Mapping[int, Ongoing],
    target: Replicas,
    sizes: Sizes,
    live: Collection[int],
    minimum: Minimum,
) -> list[Move]:
    """The partitions that are not there yet; `partitions` as librdkafka tells of them.

    One that is on its way to the target is among them, so that the same command, given again, waits for it;
    and one that has arrived and got its leader no more, because the command had ended.
    """
    moves = []
    warning = warning_of(target, live, minimum)
    for index, partition in partitions.items():
        before = ongoing.get(index)
        replicas = tuple(partition.replicas) if before is None else before.original
        is_there = before is None and replicas == target
        if is_there and partition.leader == target[0]:
            continue
        adding = tuple(each for each in target if each not in replicas)
        notes = [] if before is None else [f"on its way to {ids(before.target)}"]
        notes += ["only its leader changes"] if is_there else []
        notes += [] if warning is None else [warning]
        size = sizes.get((partition.leader, index), 0) * len(adding)
        leader = leader_of(partition)
        moves.append(Move(index, leader, replicas, target, adding, size, "; ".join(notes) or None, is_there))
    return moves


def plan_cancelling(partitions: Mapping[int, Any], ongoing: Mapping[int, Ongoing]) -> list[Move]:
    """The moves under way; their new replicas are those that they had before."""
    return [
        Move(index, leader_of(partitions[index]), each.replicas, each.original)
        for index, each in sorted(ongoing.items())
    ]


def warning_of(target: Replicas, live: Collection[int], minimum: Minimum) -> str | None:
    running = sum(each in live for each in target)
    needed = minimum.with_replicas(len(target))
    if running < needed:
        return f"{counted(running, 'live broker')}, and {MIN_INSYNC} is {needed}"
    if running < len(target):
        return f"waits for {ids(tuple(each for each in target if each not in live))}, not running"
    return None


def leader_of(partition: Any) -> int | None:
    return partition.leader if partition.leader != NO_LEADER else None


def has_arrived(partition: Any, move: Move) -> bool:
    """Who tells this may know of no move yet, so the new replicas must be in sync as well."""
    return tuple(partition.replicas) == move.target and set(move.adding) <= set(partition.isrs)


def rows_of(topic: str, moves: list[Move]) -> list[list[Cell]]:
    return [
        [
            topic,
            each.partition,
            each.leader,
            ids(each.replicas),
            ids(each.target),
            each.target[0],
            each.size_bytes,
            each.note,
        ]
        for each in moves
    ]
