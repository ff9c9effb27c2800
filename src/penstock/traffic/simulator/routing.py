"""Shortest ways, by the time that roads take.

For a destination one search (Dijkstra, backwards) finds the way from everywhere: the tree says which road
to take at each crossing. Many cars share few destinations, so trees are kept. As roads fill up and empty, a
tree gets old: those in use are grown again in turn, and cars on their way go on along the new one, as
drivers do who hear of a jam. Trees that nobody asked for lately make room for others.

A search takes milliseconds. Whoever asks between two ticks of a clock says how many searches there is time
for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.traffic.simulator.network import Network, Road

TREES_MAX: Final = 2_000

Tree = list["Road | None"]
"""The road to take at each crossing; None at the destination, and where there is no way."""


class Router:
    def __init__(self, network: Network, seconds: Sequence[float], *, trees_max: int = TREES_MAX) -> None:
        """`seconds` is what each road takes, by its index; it may change while the router is used."""
        self._seconds = seconds
        self._arriving: list[list[tuple[int, int, Road]]] = [[] for _ in network.points]
        for road in network.roads:
            self._arriving[road.end].append((road.start, road.index, road))
        self._trees: OrderedDict[int, Tree] = OrderedDict()
        """Those that were asked for last are at the end."""
        self._asked: OrderedDict[int, None] = OrderedDict()
        """Destinations that were asked for since their tree was grown, in this order."""
        self._trees_max = trees_max
        self._searches = 0

    def allow(self, searches: int) -> None:
        """How many new trees may be grown from now on."""
        self._searches = searches

    def maybe_tree(self, destination: int) -> Tree | None:
        """None if the tree is not there, and no more may be grown now."""
        tree = self._trees.get(destination)
        if tree is not None:
            self._trees.move_to_end(destination)
            self._asked[destination] = None
            return tree
        if self._searches <= 0:
            return None
        self._searches -= 1
        tree = self._trees[destination] = self.grow(destination)
        if len(self._trees) > self._trees_max:
            forgotten, _ = self._trees.popitem(last=False)
            self._asked.pop(forgotten, None)
        return tree

    def refresh(self) -> None:
        """Grows one tree again, that one which has waited longest."""
        if self._asked:
            destination, _ = self._asked.popitem(last=False)
            self._trees[destination][:] = self.grow(destination)

    def grow(self, destination: int) -> Tree:
        arriving, road_s = self._arriving, self._seconds
        tree: Tree = [None] * len(arriving)
        seconds = [float("inf")] * len(arriving)
        seconds[destination] = 0.0
        heap = [(0.0, destination)]
        while heap:
            far, crossing = heappop(heap)
            if far > seconds[crossing]:
                continue  # a shorter way was found after this one was written down
            for start, index, road in arriving[crossing]:
                total = far + road_s[index]
                if total < seconds[start]:
                    seconds[start] = total
                    tree[start] = road
                    heappush(heap, (total, start))
        return tree
