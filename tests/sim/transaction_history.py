"""A history of transactions: some time of faults, then as much of peace as it takes."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from penstock.broker import in_sync_sets, transaction_coordinator, transaction_markers
from penstock.storage import LogConfig
from penstock.transactions import shard
from penstock.transactions import transaction as transaction_core
from penstock.transactions.limits import TransactionLimits
from tests.sim.faults import Plan
from tests.sim.transaction_clients import Application, Habits
from tests.sim.transaction_cluster import Cluster, Settings
from tests.sim.transaction_faults import THEMES, TransactionFaults
from tests.sim.transaction_reader import Reader
from tests.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from tests.sim.faults import Fault
    from tests.sim.process_loop import ProcessLoop

FAULTS_FROM_MS = 150
FAULTS_MS = 1200
PEACE_MS = 6000
DAY_MS = 86_400_000


class TransactionWorld(World):
    is_peaceful = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loops: list[ProcessLoop] = []


class Focus(NamedTuple):
    """On what makes something likely that is rare otherwise."""

    kinds: list[str]
    habits: Habits


class TransactionHistory:
    def __init__(
        self,
        seed: int,
        faults: Sequence[Fault] | None = None,
        *,
        is_detailed: bool = False,
        focus: Focus | None = None,
    ) -> None:
        """With all the faults of its seed, or with some of them."""
        self.world = TransactionWorld(seed, is_detailed)
        random = self.world.stream("history")
        self.epoch_last = random.choice([transaction_core.EPOCH_LAST, transaction_core.EPOCH_LAST, 3])
        self.settings = settings(random)
        self.clients = random.randint(1, 3)
        self.habits = Habits(
            random.choice([2, 40]), random.choice([0.1, 0.4]), random.choice([0.0, 0.3, 0.8])
        )
        planned = plan(random, None if focus is None else focus.kinds)
        if focus is not None:
            self.habits = focus.habits
        self.faults = planned if faults is None else list(faults)

    def run(self) -> None:
        with short_limits(self.epoch_last):
            try:
                self.run_all()
            finally:
                for loop in self.world.loops:
                    loop.die()

    def run_all(self) -> None:
        self.cluster = Cluster(self.world, self.settings)
        self.reader = Reader(self.cluster)
        self.applications = self.make_applications()
        ways = TransactionFaults(self.cluster, self.applications)
        for fault in self.faults:
            self.world.after(fault.at_ms, lambda fault=fault: ways.inject(fault))
        self.reader.poll()
        self.world.run(FAULTS_MS)
        self.make_peace()
        deadline_ms = self.world.now_ms + PEACE_MS
        while (unfinished := self.unfinished()) is not None:
            assert self.world.now_ms < deadline_ms, f"no progress after the faults: {unfinished}"
            self.world.run(self.world.now_ms + 20)
        self.check_all()

    def make_applications(self) -> list[Application]:
        random = self.world.stream("applications")
        made = []
        for number in range(1, self.clients + 1):
            has_group = random.random() < 0.7
            application = Application(self.cluster, number, self.habits, has_group=has_group)
            made.append(application)
            self.world.after(random.randint(0, 100), application.start)
        return made

    def make_peace(self) -> None:
        self.world.note("peace")
        self.world.heal()
        self.cluster.lateness = 0.0
        self.world.is_peaceful = True
        self.cluster.make_peace()
        for application in self.applications:
            application.make_peace()

    def unfinished(self) -> str | None:
        for application in self.applications:
            if not application.is_done:
                return f"{application.transactional_id} commits nothing"
            if application.living:
                return f"{application.living[0].name} does not end"
        return self.cluster.unfinished()

    def check_all(self) -> None:
        for broker in self.cluster.running.values():
            for where in self.cluster.partitions:
                end = self.reader.read(broker, where, 0)
                assert end == broker.partitions.all[where].log.log_end_offset, f"{where} is read up to {end}"
        positions = {}
        for application in self.applications:
            if application.has_group:
                found = self.position_of(application.group_id)
                positions[application.transactional_id] = found
        self.cluster.truth.check_all(positions)

    def position_of(self, group_id: str) -> int:
        where = self.cluster.group_coordinator_of(group_id)
        broker = self.cluster.running[self.cluster.controller.partition(where).leader]
        group = broker.groups.maybe_group(group_id)
        (position,) = [0] if group is None else [each.offset for each in group.offsets.committed.values()]
        return position


def settings(random: Random) -> Settings:
    return Settings(
        partitions=random.choice([1, 2, 3]),
        coordinators=random.choice([1, 1, 2]),
        min_insync_replicas=random.choice([1, 2, 2]),
        log=LogConfig(segment_bytes=random.choice([600, 3000])),
        limits=TransactionLimits(transactional_id_expiration_ms=random.choice([DAY_MS, DAY_MS, 500])),
        transaction_timeout_ms=random.choice([100, 400, 1500]),
        flush_ms=random.choice([(0,), (0, 1, 3), (0, 0, 20)]),
        restart_ms_max=random.choice([20, 100, 300]),
    )


def plan(random: Random, kinds: list[str] | None = None) -> list[Fault]:
    """A few kinds of faults: with all of them at once, one hides what another would show."""
    found = Plan(random)
    found.maybe_add(FAULTS_FROM_MS, "loss", 0.3)
    found.maybe_add(FAULTS_FROM_MS, "delay", 0.6)
    found.maybe_add(FAULTS_FROM_MS, "lateness", 0.6 if kinds is None else 1.0)
    if kinds is None:
        theme = random.choice(THEMES)
        kinds = random.sample(theme, random.randint(2, min(6, len(theme))))
    start_ms = FAULTS_FROM_MS + random.randint(0, 100)
    found.scatter(kinds, start_ms, FAULTS_MS, (1, random.choice([30, 60, 150])))
    return found.faults


@contextmanager
def short_limits(epoch_last: int) -> Iterator[None]:
    """As all limits of this world, and an epoch that may end soon. An error that is only logged is raised."""
    shortened = [
        patch.object(transaction_markers, "ANSWER_S_MAX", 0.3),
        patch.object(transaction_markers, "PAUSE_S_MIN", 0.005),
        patch.object(transaction_markers, "PAUSE_S_MAX", 0.05),
        patch.object(transaction_coordinator, "VERIFY_S_MAX", 0.25),
        patch.object(in_sync_sets, "CHECK_S", 0.05),
        patch.object(in_sync_sets, "RETRY_S", 0.05),
        patch.object(shard, "RETRY_MS", 30),
        patch.object(transaction_core, "EPOCH_LAST", epoch_last),
        patch.object(transaction_core, "EPOCH_MAX", epoch_last + 1),
    ]
    logger, handler = logging.getLogger("penstock"), _Raising(logging.ERROR)
    before = logger.level, logger.propagate
    with ExitStack() as stack:
        for each in shortened:
            stack.enter_context(each)
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.level, logger.propagate = before


class _Raising(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            raise error
