"""Which parts of a graph hang together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Node = TypeVar("Node", int, tuple[int, int])


def components(links: Iterable[tuple[Node, Node]]) -> list[set[Node]]:
    """The nodes of each part, the largest part first. Every link can be gone both ways."""
    neighbours: dict[Node, list[Node]] = {}
    for start, end in links:
        neighbours.setdefault(start, []).append(end)
        neighbours.setdefault(end, []).append(start)
    found: list[set[Node]] = []
    reached: set[Node] = set()
    for first in neighbours:
        if first in reached:
            continue
        part, open_ends = {first}, [first]
        while open_ends:
            for node in neighbours[open_ends.pop()]:
                if node not in part:
                    part.add(node)
                    open_ends.append(node)
        reached |= part
        found.append(part)
    return sorted(found, key=lambda part: (-len(part), min(part)))
