from __future__ import annotations

import os

import pytest

from penstock.quorum.limits import QuorumLimits
from tests.sim.quorum import RESTLESS, Cluster
from tests.sim.world import Faults, World

FAULTS = ["crash", "crash", "crash all", "bounce", "wipe", "cut", "cut one way", "heal", "snapshot"]
SEEDS = int(os.environ.get("PENSTOCK_SIM_SEEDS", "100"))
FIRST_SEED = int(os.environ.get("PENSTOCK_SIM_FIRST_SEED", "1"))


def simulate(seed: int) -> Cluster:
    """Some seconds of faults, then some of peace."""
    world = World(seed)
    random = world.random
    limits = random.choice([QuorumLimits(), RESTLESS])
    cluster = Cluster(world, limits, random.choice([1, 2, 3, 3, 3, 5]), random.choice([0, 1]))
    cluster.crash_rate = random.choice([0.0, 0.0, 0.0005])
    world.faults = Faults(
        random.choice([0, 0, 0.02, 0.2]), random.choice([0, 0.1]), random.choice([2, 20, 100])
    )
    for node_id in cluster.node_ids:
        world.after(random.randint(0, 300), lambda node_id=node_id: cluster.start(node_id))
    end_ms = 20_000 if limits is not RESTLESS else 4_000
    wiped_until = 0

    def fault() -> None:
        nonlocal wiped_until
        if world.now_ms > end_ms:
            return
        world.after(random.randint(50, end_ms // 15), fault)
        kind = random.choice(FAULTS)
        up = sorted(cluster.running)
        if kind == "crash" and up:
            cluster.crash(random.choice(up))
        elif kind == "crash all":
            for node_id in up:
                cluster.crash(node_id)
        elif kind == "bounce":
            bounce(cluster, times=10)
        elif kind == "wipe" and up and len(cluster.configured.seats) > 2 and world.now_ms > wiped_until:
            # One lost disk at a time, and only when the last one has its seat again, or was no voter.
            node_id = random.choice(up)
            if every_seat_is_taken(cluster):
                cluster.crash(node_id)
                cluster.wipe(node_id)
                wiped_until = world.now_ms + 3000
        elif kind.startswith("cut"):
            node_id, other = random.sample([*cluster.node_ids, 0], 2)
            world.note(f"{kind}: {node_id} to {other}")
            world.break_link(node_id, other)
            if kind == "cut":
                world.break_link(other, node_id)
        elif kind == "heal":
            world.note("heal")
            world.heal()
        elif kind == "snapshot" and up:
            cluster.running[random.choice(up)].maybe_snapshot()
        for node_id in cluster.node_ids:
            if node_id not in cluster.running and random.random() < 0.6:
                cluster.start(node_id)

    def propose() -> None:
        if world.now_ms < end_ms + 4000:
            world.after(random.randint(5, 100), propose)
        for node in list(cluster.running.values()):
            node.propose()

    world.after(random.randint(0, 1000), fault)
    world.after(0, propose)
    world.run(end_ms)
    world.heal()
    world.faults = Faults()
    cluster.crash_rate = 0.0
    for node_id in cluster.node_ids:
        if node_id not in cluster.running:
            cluster.start(node_id)
    before = len(cluster.committed)
    world.run(end_ms + 6000)
    assert len(cluster.committed) > before, "no progress after the faults"
    for node in cluster.running.values():
        assert node.core.high_watermark == len(cluster.committed), f"{node.node_id} lags behind"
    return cluster


def bounce(cluster: Cluster, times: int) -> None:
    """One after the other stops and starts again at once, in the middle of the elections that this causes."""
    up = sorted(cluster.running)
    if up and times:
        node_id = cluster.world.random.choice(up)
        cluster.crash(node_id)
        cluster.start(node_id)
        cluster.world.after(cluster.world.random.randint(1, 300), lambda: bounce(cluster, times - 1))


def every_seat_is_taken(cluster: Cluster) -> bool:
    """On a majority of disks: every voter that the log names is one of the disks of now."""
    for node in cluster.running.values():
        if node.core.is_leader and node.core.takes_entries:
            seats = node.core.voters.seats
            return seats == {seat: cluster.disks[seat].storage_id for seat in cluster.configured.seats} and (
                node.core.high_watermark == node.disk.log.log_end_offset
            )
    return False


def check(seed: int) -> None:
    try:
        simulate(seed)
    except AssertionError as error:
        command = f"PENSTOCK_SIM_FIRST_SEED={seed} PENSTOCK_SIM_SEEDS=1 pytest tests/sim/test_quorum.py"
        pytest.fail(f"seed {seed}: {error}\nagain: {command}", pytrace=True)


def test_the_quorum_agrees_whatever_happens() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        check(seed)
