"""The simulation on a real cluster, in real time.

The positions of some steps are written together, and the next write begins when all of them are
acknowledged. So nothing piles up while brokers are away, positions of one moment are on their topics before
those of a later one are sent, and the truth knows of each whether it was written.
"""

from __future__ import annotations

import gc
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.client.errors import PenstockError
from penstock.traffic.position import now_ms
from penstock.traffic.simulator.pace import STEP_MS, STEP_S, Pace

if TYPE_CHECKING:
    from penstock.traffic.client import TrafficClient
    from penstock.traffic.position import Position
    from penstock.traffic.simulator.broken import Record
    from penstock.traffic.simulator.fleet import Fleet
    from penstock.traffic.simulator.settings import Parts
    from penstock.traffic.simulator.truth import Truth

BROKEN_EVERY_S: Final = 1.0
PROGRESS_EVERY_S: Final = 1.0
BEHIND_S: Final = 0.2
STEPS_PER_WRITE: Final = 4
"""A write has a cost for each partition, whatever it holds: fewer leave the processors to those who read."""
STEPS_AT_ONCE: Final = 10
"""Those that are overdue are written together, as waiting for brokers is what they are late for."""
COLLECT_AFTER_OBJECTS: Final = 100_000


class GivenUp(Exception):  # noqa: N818 - somebody's wish, not an error
    """Somebody does not want to wait until what is on its way is acknowledged."""


class Stop:
    """A wish to end, from a signal handler, which may come at any moment."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    def ask(self) -> None:
        """The first time it ends after the current step; the second time it does not wait for brokers."""
        if self.asked and self._waiting:
            raise GivenUp("stopped")
        self.asked = True

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For calls that may wait for brokers: GivenUp comes out of nothing else."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False


@dataclass(frozen=True, slots=True)
class Progress:
    seconds: float
    sent: int
    per_second: float
    clock: str
    """The time of day in the city."""
    behind: bool
    left_out_s: float


class Simulation:
    def __init__(
        self,
        client: TrafficClient,
        parts: Parts,
        stop: Stop,
        *,
        progress: Callable[[Progress], None],
        failed: Callable[[str], None],
    ) -> None:
        """`failed` hears of every write whose outcome is unknown."""
        self._client = client
        self._fleet, self._faults, self._truth = parts.fleet, parts.faults, parts.truth
        self._progress = progress
        self._failed = failed
        self._broken: list[Record] = []
        self._stop = stop
        self.left_out_s = 0.0

    def run(self, seconds: float | None) -> None:
        """Until `seconds` are over or somebody asks for its end."""
        # What is there now stays: the collector need not look at every car again and again. And what a step
        # leaves behind has no cycles.
        gc.collect()
        gc.freeze()
        before = gc.get_threshold()
        gc.set_threshold(COLLECT_AFTER_OBJECTS)
        try:
            self._run(seconds)
        except GivenUp:
            return  # what was on its way has been counted as unknown
        finally:
            gc.set_threshold(*before)
            gc.unfreeze()

    def _run(self, seconds: float | None) -> None:
        if self._stop.asked:
            return
        # The first write waits for connections. The clock starts when they are there.
        ts = now_ms()
        self._write(self._fleet.step(STEP_S, ts), ts)
        start_s = time.monotonic() - STEP_S
        end_s = math.inf if seconds is None else start_s + seconds + STEP_S / 2
        pace = Pace(start_s, now_ms() - STEP_MS, steps=1)
        report = _Report(self._fleet, self._truth, pace, self._progress, start_s)
        broken_due_s = start_s + BROKEN_EVERY_S
        while not self._stop.asked and pace.due_s <= end_s:
            now_s = time.monotonic()
            due_s = min(pace.due_s + (STEPS_PER_WRITE - 1) * STEP_S, end_s)
            if now_s < due_s:
                time.sleep(due_s - now_s)
                continue
            self._write(*self._steps(pace, min(now_s, end_s)))
            self.left_out_s = pace.left_out_s
            if now_s >= broken_due_s:
                broken_due_s = now_s + BROKEN_EVERY_S
                self._write_broken()
            report.maybe(time.monotonic())
        self._write_broken()

    def _steps(self, pace: Pace, now_s: float) -> tuple[list[Position], int]:
        """The positions of all steps that are due, and the newest timestamp."""
        ts = pace.next(now_s)
        positions = self._fleet.step(STEP_S, ts)
        for _ in range(STEPS_AT_ONCE - 1):
            if pace.due_s > now_s:
                break
            ts = pace.next(now_s)
            positions += self._fleet.step(STEP_S, ts)
        return positions, ts

    def _write(self, good: list[Position], ts: int) -> None:
        duplicates, late = self._faults.duplicates(good, ts), self._faults.late(good, ts)
        batch = good + duplicates + late if duplicates or late else good
        try:
            with self._stop.waiting():
                self._client.write_many(batch)
        except (PenstockError, GivenUp) as error:
            self._unknown(len(batch), error)
            return
        truth = self._truth
        truth.add_good(good)
        truth.duplicates += len(duplicates)
        truth.late += len(late)
        self._faults.written(good)
        self._broken += self._faults.broken(good)

    def _write_broken(self) -> None:
        """Past all checks. Each topic is a write of its own, so they are collected for a while."""
        topics: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for topic, key, value in self._broken:
            topics[topic].append((key, value))
        self._broken = []
        for topic, records in topics.items():
            try:
                with self._stop.waiting():
                    self._client.write_raw(topic, records)
            except (PenstockError, GivenUp) as error:
                self._unknown(len(records), error)
            else:
                self._truth.broken += len(records)

    def _unknown(self, count: int, error: Exception) -> None:
        self._truth.unknown += count
        self._failed(f"{count} positions may be written or not: {error}")
        if isinstance(error, GivenUp):
            raise error


class _Report:
    """A line each second."""

    def __init__(
        self,
        fleet: Fleet,
        truth: Truth,
        pace: Pace,
        progress: Callable[[Progress], None],
        start_s: float,
    ) -> None:
        self._fleet = fleet
        self._truth = truth
        self._pace = pace
        self._progress = progress
        self._start_s = self._last_s = start_s
        self._sent = 0
        self._left_out_s = 0.0

    def maybe(self, now_s: float) -> None:
        passed_s = now_s - self._last_s
        if passed_s < PROGRESS_EVERY_S:
            return
        sent, left_out_s = self._truth.sent, self._pace.left_out_s
        self._progress(
            Progress(
                seconds=now_s - self._start_s,
                sent=sent,
                per_second=(sent - self._sent) / passed_s,
                clock=self._fleet.day.clock(self._fleet.now_s),
                behind=self._pace.lag_s(now_s) > BEHIND_S or left_out_s > self._left_out_s,
                left_out_s=left_out_s,
            )
        )
        self._last_s, self._sent, self._left_out_s = now_s, sent, left_out_s
