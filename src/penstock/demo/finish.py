"""The end of the demo, in an order in which nothing is lost.

First the cars, which say what they have sent; then the log is read back, the heat map has its time to count
what is there, and all three are compared; the flights job and its service; the heat map; the cluster at last.
Whoever asks to stop a second time does not want to wait for any of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.demo.course import Phase
from penstock.demo.ending import end_cluster
from penstock.demo.plan import CARS, CLUSTER, FLIGHTS, FLIGHTS_DATA, FLIGHTS_SERVICE, HEATMAP
from penstock.demo.verdict import Log, Truth, Verdict, judge, read_truth
from penstock.supervisor.folder import ClusterFolder

if TYPE_CHECKING:
    from penstock.demo.figures import Totals
    from penstock.demo.stage import Stage

T = TypeVar("T")

STOP_ORDER: Final = (CARS, FLIGHTS_DATA, FLIGHTS, FLIGHTS_SERVICE, HEATMAP, CLUSTER)
COUNT_S_MAX: Final = 60.0
"""For the heat map without any progress, counted anew when it has to start Spark again."""
SETTLED_S: Final = 2.0
"""Who counts something twice may be through with it only after it has counted enough."""
LOOKS: Final = 3
"""At the log, while others go on writing to it."""
FLIGHTS_S_MAX: Final = 240.0
HURRIED_S_MAX: Final = 3.0
"""For each part when nobody wants to wait."""


def compare(stage: Stage) -> Verdict | None:
    """Stop the cars, and see whether all that they sent is counted; None if there is nothing to compare."""
    stop(stage, CARS)
    truth = read_all_truth(stage)
    if stage.live_at is None or stage.is_hurried:
        if truth is not None:
            stage.screen.say(f"the cars sent {truth.sent:,} positions")
        return None
    log = None
    for _ in range(LOOKS):
        before, log = log, beside(stage, "reading the log back", stage.topics.log)
        wait_for_counts(stage, truth, log)
        totals = stage.gateway.figures.heat.totals
        if log is None or totals is None or totals.sent <= log.records or log == before:
            break  # else others may have written after the log was read
    cells = beside(stage, "reading the map back", stage.topics.cells)
    return None if stage.is_hurried else judge(truth, log, totals, cells)


def read_all_truth(stage: Stage) -> Truth | None:
    files = sorted(stage.places.truth.glob("*.json"))
    return read_truth(file.read_text(encoding="utf-8") for file in files)


def wait_for_counts(stage: Stage, truth: Truth | None, log: Log | None) -> None:
    """Until the heat map has read as much as there is, and reads no more."""
    due = log.records if log is not None else truth.sent if truth is not None else 0
    seen: Totals | None = None
    since = time.monotonic()

    def is_over() -> bool:
        nonlocal seen, since
        totals = stage.gateway.figures.heat.totals
        if totals != seen:
            seen, since = totals, time.monotonic()
        job = stage.course[HEATMAP]
        if seen is not None and seen.sent >= due:
            return time.monotonic() - since >= SETTLED_S
        return job.phase is Phase.GIVEN_UP or time.monotonic() - max(since, job.since) >= COUNT_S_MAX

    stage.doing = "waiting until the heat map has counted what the cars sent; Ctrl-C: do not wait"
    step_until(stage, is_over)


def beside(stage: Stage, doing: str, ask: Callable[[], T]) -> T | None:
    """The answer to a question that may take a while; None if nobody wants to wait for it."""
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    stage.doing = f"{doing}; Ctrl-C: do not wait"
    Thread(target=work, daemon=True).start()
    step_until(stage, answer.done)
    return answer.result() if answer.done() else None


def wait_for_flights(stage: Stage) -> None:
    """A demo whose time is over still shows the answers it has promised."""
    ends = (Phase.DONE, Phase.GIVEN_UP)
    if stage.live_at is None or stage.course[FLIGHTS].phase in ends:
        return
    stage.doing = "waiting for the flights job; Ctrl-C: do not wait"
    deadline = time.monotonic() + FLIGHTS_S_MAX
    step_until(
        stage,
        lambda: (
            stage.is_stopping
            or time.monotonic() >= deadline
            or stage.course[FLIGHTS].phase in ends
            or Phase.GIVEN_UP in (stage.course[name].phase for name in (FLIGHTS_DATA, FLIGHTS_SERVICE))
        ),
    )


def stop_all(stage: Stage) -> None:
    """Whatever still runs, in any case."""
    for name in STOP_ORDER:
        stage.course.retire(name)
    if stage.is_hurried:
        for name in STOP_ORDER:
            stage.parts.terminate(name)
    for name in STOP_ORDER:
        stop(stage, name)
    # Its nodes may have outlived their supervisor, or have another one by now.
    patience_s = HURRIED_S_MAX if stage.is_hurried else stage.course[CLUSTER].part.stop_s_max
    end_cluster(ClusterFolder(stage.places.cluster), patience_s, lambda: not stage.is_hurried)
    stage.gateway.stop()


def stop(stage: Stage, name: str) -> None:
    if not stage.parts.is_alive(name):
        stage.course.retire(name)
        return
    part = stage.course[name].part
    stage.doing = f"stopping {part.title}"
    stage.parts.terminate(name)
    began = time.monotonic()

    def has_had_its_time() -> bool:
        patience_s = HURRIED_S_MAX if stage.is_hurried else part.stop_s_max
        return time.monotonic() - began >= patience_s

    step_until(stage, lambda: not stage.parts.is_alive(name) or has_had_its_time(), also_hurried=True)
    if stage.parts.is_alive(name):
        stage.parts.kill(name)
        step_until(stage, lambda: not stage.parts.is_alive(name), also_hurried=True)


def step_until(stage: Stage, condition: Callable[[], bool], *, also_hurried: bool = False) -> None:
    while not condition() and (also_hurried or not stage.is_hurried):
        stage.step()
