"""Consumed retention against coordinators that are replaced and do not know it.

One partition of `__consumer_offsets` with three replicas, whose metadata is old on some of them; subscribers
that begin, read on and commit wherever somebody says that it leads; and rounds of retention that ask there,
too. Any step of any of them may come next. Whatever the order: no subscription that was acknowledged ever
finds that what it needs is gone. The rounds are those of the real core; the mutations show that each of their
rules is needed.

PENSTOCK_SIM_SEEDS is how many histories are tried.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from penstock.replication.consumed import ConsumedPartition, readers_of
from tests.sim.checking import FIRST_SEED, SEEDS

STEPS = 1_500
SEEDS_MAX = 2_000
NODES = range(3)
GONE = -1
SUBSCRIBERS_MAX = 3


@dataclass(frozen=True)
class Metadata:
    leader: int
    epoch: int
    isr: frozenset[int]


@dataclass(frozen=True)
class Entry:
    epoch: int
    group: str = ""
    """Empty: it only confirms."""
    offset: int = 0
    """GONE: it takes back what the group committed before."""


@dataclass
class Node:
    number: int
    known: Metadata
    log: list[Entry] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)
    """As a leader: how much of the log each follower is known to have."""

    @property
    def leads(self) -> bool:
        return self.known.leader == self.number

    @property
    def committed(self) -> int:
        ends = [self.acknowledged.get(each, 0) for each in self.known.isr - {self.number}]
        return min([len(self.log), *ends])

    def learn(self, metadata: Metadata) -> None:
        if metadata != self.known:
            if metadata.epoch != self.known.epoch:
                self.acknowledged = {}
            self.known = metadata

    def positions(self) -> dict[str, dict[int, int]]:
        found = {entry.group: entry.offset for entry in self.log[: self.committed] if entry.group}
        return {group: {0: offset} for group, offset in found.items() if offset != GONE}


@dataclass
class Pending:
    """A record that waits to be committed by the leader that took it."""

    node: Node
    epoch: int
    end: int

    @property
    def is_over(self) -> bool:
        return self.node.known.epoch != self.epoch

    @property
    def is_committed(self) -> bool:
        return not self.is_over and self.node.committed >= self.end


@dataclass
class Subscriber:
    name: str
    begins_with_the_log_start: bool
    phase: int = 0
    """0: nothing is known of it; 1: it holds the log's start; 2: it has subscribed; 3: it wants to leave."""
    offset: int = 0
    """What it has committed, or is about to."""
    since_round: int = 0
    """The last round that had begun when it was first acknowledged."""
    is_about_to: bool = False
    waits_for: Pending | None = None


class World:
    def __init__(self, seed: int, mutations: frozenset[str] = frozenset()) -> None:
        self.chance = random.Random(seed)
        self.mutations = mutations
        self.truth = Metadata(0, 1, frozenset(NODES))
        self.nodes = [Node(number, self.truth) for number in NODES]
        count = self.chance.randint(1, SUBSCRIBERS_MAX)
        holds = "subscribes in one step" not in mutations
        self.subscribers = [Subscriber(f"s{number}", holds) for number in range(count)]
        self.high_watermark = self.log_start = 0
        self.core = ConsumedPartition()
        self.round = 0
        self.asked: Pending | None = None
        self.readers: dict[str, int] | None = None
        """The answer."""
        self.removals = 0

    def run(self) -> None:
        steps = [self.write, self.elect, self.learn, self.fetch, self.look, self.commit, self.acknowledge]
        steps += [self.fetch, self.ask, self.answer, self.remove]
        for _ in range(STEPS):
            self.chance.choice(steps)()

    # The cluster

    def write(self) -> None:
        self.high_watermark += self.chance.randint(1, 5)

    def elect(self) -> None:
        """Another leader out of the in-sync set; now and then somebody leaves it, or returns to it."""
        if self.chance.random() < 0.9:
            return
        leader, isr = self.chance.choice(sorted(self.truth.isr)), set(self.truth.isr)
        present, other = self.nodes[self.truth.leader], self.chance.choice(self.nodes)
        if other.number in isr and other.number != leader and len(isr) > 2:
            isr.remove(other.number)
        elif other.number not in isr and present.known == self.truth and other.log == present.log:
            isr.add(other.number)
            leader = present.number  # it proposes this, and counts who joins from that moment on
        self.truth = Metadata(leader, self.truth.epoch + 1, frozenset(isr))
        if len(isr) > len(present.known.isr):
            present.learn(self.truth)

    def learn(self) -> None:
        self.chance.choice(self.nodes).learn(self.truth)

    def fetch(self) -> None:
        follower, leader = self.chance.sample(self.nodes, 2)
        if leader.leads and follower.known.epoch == leader.known.epoch:
            follower.log = list(leader.log)
            leader.acknowledged[follower.number] = len(follower.log)

    def append(self, entry_of: Callable[[int], Entry]) -> Pending | None:
        """To whoever says that it leads."""
        leaders = [node for node in self.nodes if node.leads]
        if not leaders:
            return None
        node = self.chance.choice(leaders)
        node.log.append(entry_of(node.known.epoch))
        return Pending(node, node.known.epoch, len(node.log))

    # Subscribers

    def look(self) -> None:
        """One chooses what to commit next."""
        one = self.chance.choice(self.subscribers)
        if one.waits_for is not None or one.is_about_to:
            return
        if one.phase == 0 and one.begins_with_the_log_start:
            one.offset = self.log_start
        elif one.phase < 2:
            one.offset = self.high_watermark
        elif self.chance.random() < 0.3:
            one.phase, one.offset = 3, GONE
        else:
            one.offset = self.chance.randint(one.offset, self.high_watermark)
        one.is_about_to = True

    def commit(self) -> None:
        one = self.chance.choice(self.subscribers)
        if one.is_about_to:
            one.waits_for = self.append(lambda epoch: Entry(epoch, one.name, one.offset))
            one.is_about_to = one.waits_for is None

    def acknowledge(self) -> None:
        for one in self.subscribers:
            if one.waits_for is not None and one.waits_for.is_committed:
                one.waits_for = None
                if one.phase == 0:
                    one.since_round = self.round
                if one.phase == 3:
                    one.phase = 0
                else:
                    one.phase = min(2, one.phase + 1 if one.begins_with_the_log_start else 2)
                if one.phase == 2:
                    assert self.log_start <= one.offset, f"{one} was told that it begins there"
            elif one.waits_for is not None and one.waits_for.is_over:
                one.waits_for = None
                one.is_about_to = True  # it will try again

    # Retention

    def ask(self) -> None:
        if self.asked is None or self.asked.is_over:
            self.core.begin_round(self.high_watermark)
            self.round += 1
            self.asked, self.readers = self.append(Entry), None

    def answer(self) -> None:
        if self.asked is None or self.asked.is_over:
            return
        if self.asked.is_committed or "believes whoever says that it leads" in self.mutations:
            self.readers = readers_of(self.asked.node.positions(), 0, self.high_watermark)

    def remove(self) -> None:
        if self.readers is None:
            return
        if "goes to the present end" in self.mutations:
            self.core.begin_round(self.high_watermark)
            self.core.begin_round(self.high_watermark)
        before = self.core.decide(self.readers, now_ms=0, grace_ms=0, ceiling=0).before
        self.asked = self.readers = None
        if before > self.log_start:
            self.log_start, self.removals = before, self.removals + 1
            self.check()

    def check(self) -> None:
        for one in self.subscribers:
            if one.phase == 2 or (one.phase == 1 and one.since_round < self.round):
                assert self.log_start <= one.offset, f"{one} still needs what was before {self.log_start}"


def test_nothing_goes_that_a_subscription_needs() -> None:
    removals = 0
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        world = World(seed)
        try:
            world.run()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        removals += world.removals
    assert removals > SEEDS, "something must go, or nothing was tested"


@pytest.mark.parametrize(
    "mutations",
    [
        {"believes whoever says that it leads"},
        {"goes to the present end"},
        {"subscribes in one step"},
    ],
    ids=lambda mutations: mutations.copy().pop(),
)
def test_a_broken_rule_is_noticed(mutations: set[str]) -> None:
    for seed in range(SEEDS_MAX):
        try:
            World(seed, frozenset(mutations)).run()
        except AssertionError:
            return
    pytest.fail(f"not noticed in {SEEDS_MAX} histories")
