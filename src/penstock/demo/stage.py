"""All that runs, and what is told about it, step by step."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.demo import plan
from penstock.demo.browser import has_display, open_browser
from penstock.demo.course import Course, Phase
from penstock.demo.gateway import Gateway
from penstock.demo.parts import Ended, Heard, LivingParts
from penstock.demo.plan import (
    CARS,
    CLUSTER,
    FLIGHTS,
    FLIGHTS_SERVICE,
    HEATMAP,
    MAP,
    Addresses,
    Part,
    Places,
)
from penstock.demo.view import Cars, View, clock, flights_result, hint

if TYPE_CHECKING:
    from penstock.demo.guard import Guard
    from penstock.demo.screen import Screen
    from penstock.demo.topics import Topics

MakeParts = Callable[..., list[Part]]
"""As `plan.parts`."""
MakeTopics = Callable[[str], "Topics"]
"""From the addresses of brokers."""
LOOK_S: Final = 0.1
TAIL_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    seconds: float | None
    """With heat on the map; None: until it is stopped."""
    open_browser: bool
    cars: int
    rate: float


@dataclass(slots=True)
class Asked:
    """To stop: the second time, at once."""

    times: int = 0


class Stage:
    def __init__(
        self,
        wanted: Wanted,
        places: Places,
        addresses: Addresses,
        guard: Guard,
        screen: Screen,
        asked: Asked,
        make_parts: MakeParts,
        make_topics: MakeTopics,
    ) -> None:
        run = time.strftime("%Y%m%d-%H%M%S")
        self.wanted = wanted
        self.places = places
        self.screen = screen
        self.course = Course(make_parts(places, addresses, cars=wanted.cars, rate=wanted.rate, run=run))
        self.parts = LivingParts(self.course, places, guard, environment(places))
        self.gateway = Gateway(addresses.url)
        self.topics = make_topics(addresses.bootstrap)
        self.began = time.monotonic()
        self._began_ms = time.time_ns() // 1_000_000
        self.live_at: float | None = None
        """When there was heat on the map for the first time."""
        self.doing = ""
        self._asked = asked
        self._addresses = addresses
        self._run = run
        self._truth = places.truth / f"{run}-0.json"
        self._results = places.results(run)
        self._cars = Cars(wanted.cars)
        self._flights: dict[str, Any] | None = None
        self._told_ms: int | None = None
        """Until when events were told; None while so much happens that nothing is."""

    @property
    def is_stopping(self) -> bool:
        return self._asked.times > 0 or self.screen.is_gone

    @property
    def is_hurried(self) -> bool:
        return self._asked.times > 1 or self.screen.is_gone

    def step(self) -> None:
        """A look at everything, then a moment of rest."""
        now = time.monotonic()
        for part in self.parts.start_due(now):
            start = self.course[part.name].starts
            if start > 1:
                self.screen.say(f"started {part.title} again")
            if part.name == CARS:
                self._truth = self.places.truth / f"{self._run}-{start}.json"
                self._truth.touch()  # empty, for cars that never come to say what they sent
        for news in self.parts.look(now):
            if isinstance(news, Heard):
                self._heard(news)
            else:
                self._ended(news)
        self._look_at_the_map(now)
        self._tell_events()
        self.screen.show(self._view())
        time.sleep(LOOK_S)

    def _heard(self, news: Heard) -> None:
        name = news.part.name
        if name == CARS:
            self._heard_from_cars(news.line)
        if not news.became_ready:
            return
        if name == CLUSTER and self.course[CLUSTER].starts == 1:
            self.gateway.start()
            self._show_console()
        elif name == CARS:
            self.screen.say(f"{self.wanted.cars:,} cars are on the road")
        elif name == HEATMAP:
            self.screen.say("the heat map job runs on Spark")
        elif name == FLIGHTS_SERVICE:
            self.screen.say(f"the flights service runs on Spark: {self._addresses.url}/#/flights")

    def _heard_from_cars(self, line: str) -> None:
        if found := plan.CARS_SENT.search(line):
            sent, rate = (float(found[key].replace(",", "")) for key in ("sent", "rate"))
            self._cars = Cars(self.wanted.cars, int(sent), rate)
        elif line.startswith("{"):
            self._truth.write_text(line, encoding="utf-8")

    def _show_console(self) -> None:
        from penstock.gateway.console.built import BuiltConsole

        url = self._addresses.url
        self.screen.say(f"console {url}/")
        self.screen.say(f"{plan.BROKERS} brokers serve kafka={self._addresses.bootstrap}")
        if BuiltConsole().index() is None:
            self.screen.say("the console was not built, and that page only says so: run `make console`")
        elif self.wanted.open_browser and has_display(os.environ):
            open_browser(f"{url}/#/traffic")

    def _ended(self, news: Ended) -> None:
        watched = news.watched
        part = watched.part
        match watched.phase:
            case Phase.DONE if part.name == FLIGHTS:
                self._flights = read_summary(self._results)
                if self._flights is not None:
                    self.screen.say(f"flights: {flights_result(self._flights)}")
            case Phase.DOWN:
                again = f"{part.again}, {watched.ends} of {part.restarts_max}"
                self.screen.say(f"{part.title} ended ({watched.reason}): {again}")
                self._show_tail(news)
            case Phase.GIVEN_UP:
                self.screen.say(f"{part.title} cannot run: {watched.reason}")
                self._show_tail(news)
                if part.name == HEATMAP:
                    self.screen.say("the map stays dark; the cluster, the cars and the console go on")
                    self.course.reach(MAP)

    def _show_tail(self, news: Ended) -> None:
        """Where the reason alone does not say all."""
        if any(line and news.watched.reason not in line for line in news.tail):
            for line in news.tail[-TAIL_SHOWN:]:
                self.screen.say(f"  | {line}")

    def _look_at_the_map(self, now: float) -> None:
        if self.live_at is not None or not self.gateway.figures.heat.is_live(self._began_ms):
            return
        self.live_at = now
        self.course.reach(MAP)
        url = self._addresses.url
        self.screen.say(f"the map is live after {now - self.began:.0f} s: {url}/#/traffic")
        self.screen.say(f"try: open {url}/#/cluster and kill a leader; or: {hint(url)}")

    def _tell_events(self) -> None:
        if self.screen.shows_events:
            return
        if self._told_ms is None:
            if self.course.has_reached(MAP) and self.course.has_reached(CLUSTER):
                self._told_ms = time.time_ns() // 1_000_000
            return
        new = [event for event in self.gateway.figures.events if event.timestamp_ms > self._told_ms]
        for event in new:
            self._told_ms = max(self._told_ms, event.timestamp_ms)
            self.screen.say(f"{clock(event.timestamp_ms)}  {event.text}")

    def _view(self) -> View:
        watched = {each.part.name: each for each in self.course}
        return View(
            url=self._addresses.url,
            up_s=time.monotonic() - self.began,
            now_ms=time.time_ns() // 1_000_000,
            phases={name: each.phase for name, each in watched.items()},
            reasons={name: each.reason for name, each in watched.items()},
            figures=self.gateway.figures,
            cars=self._cars,
            is_live=self.live_at is not None,
            flights=self._flights,
            doing=self.doing,
        )


def environment(places: Places) -> dict[str, str]:
    """For the parts: what they leave goes with the demo's folder, and lines come as they are written."""
    scratch = str(places.scratch)
    return {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch}


def read_summary(results: Path) -> dict[str, Any] | None:
    try:
        summary = json.loads((results / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return summary if isinstance(summary, dict) else None
