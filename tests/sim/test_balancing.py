"""The balancer through loads that change, brokers that come and go, and controllers that fail over.

Each move is checked for safety as it is made. Once the faults are over and the load is constant the balancer
comes to rest, and stays there: what it has done is not undone.
"""

from __future__ import annotations

import random

import pytest

from tests.sim.balancing import World
from tests.sim.checking import BLOCKS, check_seeds

QUIET_S = 500


def world_of(seed: int) -> World:
    rng = random.Random(seed)
    world = World(rng)
    racks = rng.choice([0, 0, 2, 3])
    for number in range(1, rng.randint(3, 7) + 1):
        world.add_broker(number, f"rack-{number % racks}" if racks else None)
    for number in range(rng.randint(1, 5)):
        world.add_topic(
            f"topic-{number}",
            rng.randint(1, 8),
            rng.randint(1, 3),
            rng.choice([0.0, 0.001, 0.02, 0.05]),
            start=rng.randrange(8),
        )
    return world


def disturb(world: World) -> None:
    """Ten minutes in which anything happens; at their end all brokers are there."""
    rng = world.rng
    away: set[int] = set()
    for _ in range(60):
        what = rng.choice(["kill", "back", "load", "calm", "controller", "broker", "disk", "nothing"])
        live = [each.id for each in world.image.live_brokers()]
        if what == "kill" and len(live) > 2:
            away.add(broker := rng.choice(live))
            world.kill(broker)
        elif what == "back" and away:
            away.remove(broker := rng.choice(sorted(away)))
            world.bring_back(broker)
        elif what == "load":
            world.shares[rng.choice(sorted(world.shares))] = rng.choice([0.2, 0.4, 0.6])
        elif what == "calm":
            world.shares = dict.fromkeys(world.shares, 0.01)
        elif what == "controller":
            world.controller_fails_over()
        elif what == "broker" and len(world.image.brokers) < 9:
            world.add_broker(len(world.image.brokers) + 1, f"rack-{rng.randint(0, 2)}")
        elif what == "disk":
            world.disk_free[rng.choice(live)] = rng.choice([0.05, 0.15, 0.5])
        world.run(rng.randint(1, 20))
    for broker in sorted(away):
        world.bring_back(broker)
    if rng.random() < 0.5:
        world.disk_free.clear()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_it_comes_to_rest_and_stays_there(block: int) -> None:
    check_seeds(block, come_to_rest, "tests/sim/test_balancing.py")


def come_to_rest(seed: int) -> None:
    world = world_of(seed)
    disturb(world)
    world.run(QUIET_S)
    at_rest_ms = world.now_ms
    world.run(QUIET_S)
    assert world.moves_since(at_rest_ms) == []
    assert not world.lacking()
    if not world.disk_free and not world.has_racks:
        assert max(world.held().values()) - min(world.held().values()) <= 1 or world.is_busy
    if not world.is_busy:
        assert not world.borrowed()
