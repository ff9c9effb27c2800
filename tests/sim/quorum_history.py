"""A history of the simulated quorum: some seconds of faults, then as much of peace as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.quorum.limits import QuorumLimits
from tests.sim.faults import Plan
from tests.sim.quorum import RESTLESS, Cluster
from tests.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.sim.faults import Fault

KINDS = ["crash", "crash", "crash all", "bounce", "wipe", "cut", "cut one way", "snapshot"]
NOBODY = 0
"""A link to it is none: so some faults strike nothing."""
WIPE_AGAIN_MS = 3000
PEACE_MS = 6000


class QuorumHistory:
    def __init__(
        self, seed: int, faults: Sequence[Fault] | None = None, *, is_detailed: bool = False
    ) -> None:
        """With all the faults of its seed, or with some of them."""
        self.world = World(seed, is_detailed)
        random = self.world.stream("history")
        limits = random.choice([QuorumLimits(), RESTLESS])
        voters = random.choice([1, 2, 3, 3, 3, 5])
        self.cluster = Cluster(self.world, limits, voters, random.choice([0, 1]))
        self.end_ms = 4_000 if limits is RESTLESS else 20_000
        self.cluster.restart_ms_max = random.choice([50, self.end_ms // 15])
        self.enough = 1 << 30
        """How much shall be committed."""
        self._may_wipe_at_ms = 0
        self._proposals = self.world.stream("proposals")
        planned = plan(random, self.end_ms)
        self.faults = planned if faults is None else list(faults)

    def run(self) -> None:
        world, cluster = self.world, self.cluster
        random = world.stream("starts")
        for node_id in cluster.node_ids:
            world.after(random.randint(0, 300), lambda node_id=node_id: cluster.start(node_id))
        for fault in self.faults:
            world.after(fault.at_ms, lambda fault=fault: self.inject(fault))
        world.after(0, self.propose)
        world.run(self.end_ms)
        self.make_peace()
        deadline_ms = world.now_ms + PEACE_MS
        while not self.is_well():
            assert world.now_ms < deadline_ms, "no progress after the faults"
            world.run(world.now_ms + 50)

    def make_peace(self) -> None:
        self.world.note("peace")
        self.world.heal()
        self.cluster.crash_rate = 0.0
        for node_id in self.cluster.node_ids:
            self.cluster.start(node_id)
        self.enough = len(self.cluster.committed) + 10

    def is_well(self) -> bool:
        """More is committed than before, and everybody knows."""
        committed = len(self.cluster.committed)
        return committed >= self.enough and all(
            node.core.high_watermark == committed for node in self.cluster.running.values()
        )

    def propose(self) -> None:
        self.world.after(self._proposals.randint(5, 100), self.propose)
        if len(self.cluster.committed) < self.enough:
            for node in list(self.cluster.running.values()):
                node.propose()

    # Faults

    def inject(self, fault: Fault) -> None:
        getattr(self, fault.kind.replace(" ", "_"))(fault.random)

    def loss(self, random: Random) -> None:
        self.world.faults.loss = random.choice([0.02, 0.2])

    def duplication(self, random: Random) -> None:
        self.world.faults.duplication = 0.1

    def delay(self, random: Random) -> None:
        self.world.faults.delay_ms_max = random.choice([20, 100])

    def crashes_between_effects(self, random: Random) -> None:
        self.cluster.crash_rate = 0.0005

    def someone(self, random: Random) -> int | None:
        up = sorted(self.cluster.running)
        return random.choice(up) if up else None

    def crash(self, random: Random) -> None:
        node_id = self.someone(random)
        if node_id is not None:
            self.cluster.crash(node_id)

    def crash_all(self, random: Random) -> None:
        for node_id in sorted(self.cluster.running):
            self.cluster.crash(node_id)

    def bounce(self, random: Random, times: int = 10) -> None:
        """One after the other stops and starts again at once, in the midst of the elections it causes."""
        node_id = self.someone(random)
        if node_id is not None and times and self.world.now_ms < self.end_ms:
            self.cluster.crash(node_id)
            self.cluster.start(node_id)
            self.world.after(random.randint(1, 300), lambda: self.bounce(random, times - 1))

    def wipe(self, random: Random) -> None:
        """One lost disk at a time, and only when the last one has its seat again, or was no voter."""
        node_id, cluster = self.someone(random), self.cluster
        if node_id is None or len(cluster.configured.seats) <= 2 or self.world.now_ms <= self._may_wipe_at_ms:
            return
        if cluster.every_seat_is_taken():
            cluster.crash(node_id)
            cluster.wipe(node_id)
            self._may_wipe_at_ms = self.world.now_ms + WIPE_AGAIN_MS

    def cut(self, random: Random, *, both_ways: bool = True) -> None:
        source, target = random.sample([*self.cluster.node_ids, NOBODY], 2)
        duration_ms = random.randint(50, self.end_ms // 3)
        self.world.note(f"cut: {source} to {target}{' and back' if both_ways else ''}, for {duration_ms} ms")
        self.world.break_link(source, target, duration_ms)
        if both_ways:
            self.world.break_link(target, source, duration_ms)

    def cut_one_way(self, random: Random) -> None:
        self.cut(random, both_ways=False)

    def snapshot(self, random: Random) -> None:
        node_id = self.someone(random)
        if node_id is not None:
            self.cluster.running[node_id].maybe_snapshot()


def plan(random: Random, end_ms: int) -> list[Fault]:
    found = Plan(random)
    found.maybe_add(0, "loss", 0.5)
    found.maybe_add(0, "duplication", 0.5)
    found.maybe_add(0, "delay", 0.67)
    found.maybe_add(0, "crashes between effects", 0.33)
    found.scatter(KINDS, random.randint(0, 1000), end_ms, (50, end_ms // 15))
    return found.faults
