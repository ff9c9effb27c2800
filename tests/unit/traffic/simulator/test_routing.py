"""Trees of shortest ways, against a search that tries everything."""

from __future__ import annotations

from random import Random

import pytest

from penstock.traffic.simulator.network import Network, Road
from penstock.traffic.simulator.plan import Plan
from penstock.traffic.simulator.routing import Router, Tree


def make_network(crossings: int, ways: list[tuple[int, int]]) -> Network:
    roads = tuple(
        Road(
            index=index,
            start=start,
            end=end,
            kind="street",
            length_m=100.0,
            free_kmh=36.0,
            heading=0.0,
            lat=0.0,
            lon=0.0,
            north=0.0,
            east=0.0,
        )
        for index, (start, end) in enumerate(ways)
    )
    return Network(tuple((0.0, 0.0) for _ in range(crossings)), roads, (), Plan({}, ()), {})


def travel_s(tree: Tree, seconds: list[float], start: int, destination: int) -> float:
    total, crossing, roads = 0.0, start, 0
    while crossing != destination:
        road = tree[crossing]
        if road is None:
            return float("inf")
        assert road.start == crossing
        total += seconds[road.index]
        crossing = road.end
        roads += 1
        assert roads <= len(tree), "it goes in circles"
    return total


@pytest.mark.parametrize("seed", range(20))
def test_no_way_is_shorter(seed: int) -> None:
    random = Random(seed)
    count = random.randint(2, 12)
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    ways = random.sample(pairs, random.randint(1, len(pairs)))
    seconds = [float(random.randint(1, 9)) for _ in ways]
    # Relaxing every road as often as there are crossings finds everything, slowly.
    best = [[0.0 if a == b else float("inf") for b in range(count)] for a in range(count)]
    for _ in range(count):
        for index, (start, end) in enumerate(ways):
            for destination in range(count):
                through = seconds[index] + best[end][destination]
                best[start][destination] = min(best[start][destination], through)
    router = Router(make_network(count, ways), seconds)
    for destination in range(count):
        tree = router.grow(destination)
        for start in range(count):
            assert travel_s(tree, seconds, start, destination) == best[start][destination]


def test_only_as_many_searches_as_there_is_time_for() -> None:
    router = Router(make_network(3, [(0, 1), (1, 2), (2, 0)]), [1.0, 1.0, 1.0])
    assert router.maybe_tree(0) is None
    router.allow(1)
    tree = router.maybe_tree(0)
    assert tree is not None
    assert router.maybe_tree(1) is None
    assert router.maybe_tree(0) is tree, "what is known costs nothing"


def test_cars_on_their_way_hear_of_a_jam() -> None:
    seconds = [1.0, 1.0, 5.0]
    router = Router(make_network(3, [(0, 1), (1, 2), (0, 2)]), seconds)
    router.allow(1)
    router.maybe_tree(2)
    tree = router.maybe_tree(2)
    assert tree is not None
    assert tree[0] is not None
    assert tree[0].end == 1
    seconds[1] = 60.0
    router.refresh()
    assert tree[0].end == 2
    router.refresh()  # nobody has asked since


def test_trees_that_nobody_asks_for_make_room() -> None:
    router = Router(make_network(3, [(0, 1), (1, 2), (2, 0)]), [1.0, 1.0, 1.0], trees_max=2)
    router.allow(3)
    for destination in (0, 1, 0, 2):
        assert router.maybe_tree(destination) is not None
    assert router.maybe_tree(0) is not None
    assert router.maybe_tree(1) is None
    for _ in range(3):
        router.refresh()
