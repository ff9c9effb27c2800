"""The demo from its first process to its last.

One loop looks at everything ten times a second, until the time is over or somebody asks to stop. Whatever
happens in it, what was started is stopped; what a killed demo cannot stop itself, its guard does.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.demo import finish, plan, ports
from penstock.demo.course import Phase
from penstock.demo.errors import DemoError
from penstock.demo.guard import Guard
from penstock.demo.plan import CARS, CLUSTER, HEATMAP, Places
from penstock.demo.screen import screen
from penstock.demo.stage import Asked, MakeParts, MakeTopics, Stage, Wanted
from penstock.demo.topics import KafkaTopics

if TYPE_CHECKING:
    from penstock.demo.verdict import Verdict

LIVE_S_MAX: Final = 240.0
"""For heat on the map: a machine that takes longer has other troubles."""
REMOVE_S_MAX: Final = 5.0
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(
    wanted: Wanted,
    *,
    data: Path | None,
    port: int | None,
    http_port: int | None,
    make_parts: MakeParts = plan.parts,
    make_topics: MakeTopics = KafkaTopics,
) -> None:
    """DemoError: why it was not what it should be. By then nothing runs any more."""
    addresses, said = ports.choose(port, http_port)
    shown = screen()
    with asked_to_stop() as asked, demo_folder(data) as places:
        guard = Guard(places.folder, keep=data is not None)
        stage = Stage(wanted, places, addresses, guard, shown, asked, make_parts, make_topics)
        verdict = None
        try:
            for line in [*said, f"starting 3 brokers, {wanted.cars:,} cars and the heat map on Spark"]:
                shown.say(line)
            while not stage.is_stopping and not is_over(stage):
                stage.step()
            if stage.course[CLUSTER].phase is not Phase.GIVEN_UP:
                verdict = conclude(stage)
        finally:
            finish.stop_all(stage)
            shown.close()
        guard.dismiss()
    kept = "the data is gone" if data is None else f"the data is in {data}"
    shown.say(f"stopped: nothing is left running, {kept}")
    complain(stage, verdict)


def conclude(stage: Stage) -> Verdict | None:
    is_asked = stage.is_stopping
    verdict = finish.compare(stage)
    if verdict is not None:
        stage.screen.say(verdict.text)
    elif stage.is_hurried:
        stage.screen.say("stopping at once: what was counted is not compared with what was sent")
    if not is_asked and not stage.is_stopping:
        finish.wait_for_flights(stage)
    return verdict


def is_over(stage: Stage) -> bool:
    now = time.monotonic()
    if stage.course[CLUSTER].phase is Phase.GIVEN_UP:
        return True
    if stage.wanted.seconds is None:
        return False
    since = stage.live_at
    if since is None and stage.course[HEATMAP].phase is Phase.GIVEN_UP:
        cars = stage.course[CARS]
        since = cars.since if cars.phase in (Phase.RUNNING, Phase.GIVEN_UP) else None
    if since is None:
        return now - stage.began >= LIVE_S_MAX
    return now - since >= stage.wanted.seconds


def complain(stage: Stage, verdict: Verdict | None) -> None:
    """DemoError if a part was missing that makes the demo one."""
    for watched in stage.course:
        if watched.phase is Phase.GIVEN_UP:
            raise DemoError(f"{watched.part.title} could not run: {watched.reason}")
    if stage.live_at is None and not stage.is_stopping:
        raise DemoError(f"there was no heat on the map within {LIVE_S_MAX:.0f} s")
    if verdict is not None and verdict.holds is False:
        raise DemoError(f"the heat map is not what the cars sent: {verdict.text}")


@contextmanager
def demo_folder(data: Path | None) -> Iterator[Places]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-")) if data is None else data.absolute()
    places = Places(folder)
    try:
        for own in places.own:
            own.mkdir(parents=True, exist_ok=True)
        yield places
    finally:
        remove(places.scratch if data is not None else folder)


def remove(folder: Path) -> None:
    """A process that is just ending may still write to it."""
    deadline = time.monotonic() + REMOVE_S_MAX
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=time.monotonic() < deadline)


@contextmanager
def asked_to_stop() -> Iterator[Asked]:
    asked = Asked()

    def ask(*_: object) -> None:
        asked.times += 1

    before = {
        number: signal.signal(number, ask)
        for number in STOP_SIGNALS
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN  # as nohup has it
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
