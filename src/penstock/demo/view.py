"""What the demo shows, from what it knows: pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.demo import plan
from penstock.demo.course import Phase
from penstock.demo.figures import Figures, seconds_behind

if TYPE_CHECKING:
    from rich.console import RenderableType

EVENTS_SHOWN: Final = 6
QUERIES: Final = ("q1", "q2", "q3", "q4")


@dataclass(frozen=True, slots=True)
class Cars:
    """As the simulator said last."""

    number: int
    sent: int = 0
    per_second: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    url: str
    up_s: float
    now_ms: int
    phases: Mapping[str, Phase]
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a part does not run."""
    figures: Figures
    cars: Cars
    is_live: bool = False
    flights: Mapping[str, Any] | None = None
    """The summary of the job."""
    doing: str = ""
    """What it stops or waits for."""


def cluster_words(view: View) -> str:
    figures = view.figures
    if not figures.brokers:
        return "starting" if view.phases[plan.CLUSTER] is not Phase.GIVEN_UP else "down"
    away = "" if figures.answers else " (the gateway does not answer)"
    return f"{figures.running} of {len(figures.brokers)} brokers run{away}"


def cars_words(view: View) -> str:
    cars, phase = view.cars, view.phases[plan.CARS]
    if phase is Phase.RUNNING:
        return f"{cars.number:,} cars, {cars.per_second:,.0f} positions per second, {cars.sent:,} sent"
    if phase in (Phase.GIVEN_UP, Phase.DOWN):
        return f"{phase}: {view.reasons.get(plan.CARS, '')}"
    return f"{phase}, {cars.sent:,} sent" if cars.sent else str(phase)


def map_words(view: View) -> str:
    heat, phase = view.figures.heat, view.phases[plan.HEATMAP]
    reason = view.reasons.get(plan.HEATMAP, "")
    if phase is Phase.GIVEN_UP:
        return f"stays dark: {reason}"
    words = []
    if phase is Phase.DOWN:
        words = [f"the job is started again: {reason}"]
    elif not view.is_live:
        words = ["Spark starts" if phase is Phase.STARTING else "waits for the first window"]
    behind = seconds_behind(heat, view.now_ms)
    if view.is_live and behind is not None:
        words.append(f"{behind:.1f} s behind")
    totals = heat.totals
    if totals is not None:
        words.append(f"{totals.counted:,} counted")
        aside = (("late", totals.late), ("duplicate", totals.duplicate), ("malformed", totals.malformed))
        words += [f"{count:,} {name}" for name, count in aside if count]
    return ", ".join(words)


def flights_words(view: View) -> str:
    if view.flights is not None:
        return flights_result(view.flights)
    for name in (plan.FLIGHTS, plan.FLIGHTS_SERVICE, plan.FLIGHTS_DATA):
        phase = view.phases[name]
        if phase is Phase.GIVEN_UP:
            return f"not answered: {view.reasons.get(name, '')}"
        if phase is Phase.DOWN:
            return f"started again: {view.reasons.get(name, '')}"
    if view.phases[plan.FLIGHTS_DATA] is Phase.WAITING:
        return "after the map is live"
    if view.phases[plan.FLIGHTS] is Phase.STARTING:
        return f"{plan.FLIGHTS_ROWS:,} itineraries are sent to the service, four queries about them run"
    if view.phases[plan.FLIGHTS_SERVICE] is Phase.STARTING:
        return "Spark starts for the service"
    return f"{plan.FLIGHTS_ROWS:,} itineraries are written"


def flights_result(summary: Mapping[str, Any]) -> str:
    queries = summary.get("queries", {})
    rows = ", ".join(f"{query} {queries.get(query, 0):,}" for query in QUERIES)
    fare = summary.get("average_fare")
    average = f", average fare {fare:.2f}" if isinstance(fare, int | float) else ""
    return (
        f"{summary.get('rows_read', 0):,} itineraries in {summary.get('seconds', 0):.1f} s: {rows}{average}"
    )


def status_line(view: View) -> str:
    """All of it, where there is no terminal."""
    words = [cluster_words(view), cars_words(view), f"map {map_words(view)}"]
    return "; ".join(words)


def hint(url: str) -> str:
    return f"penstock cluster kill leader:traffic.r0.c0 --http {url}"


def clock(timestamp_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(timestamp_ms / 1_000))


def live_view(view: View) -> RenderableType:
    """For a terminal."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("console", console_text(view))
    table.add_row("brokers", brokers_text(view))
    if view.figures.leaders:
        leaders = "  ".join(
            f"{quadrant} → {leader if leader is not None else 'nobody'}"
            for quadrant, leader in sorted(view.figures.leaders.items())
        )
        table.add_row("leaders", leaders)
    table.add_row("cars", Text(cars_words(view)))
    table.add_row("map", Text(map_words(view), style="green" if view.is_live else "yellow"))
    table.add_row("flights", Text(flights_words(view)))
    events = [
        Text(f"{clock(event.timestamp_ms)}  {event.text}", style="dim", overflow="ellipsis", no_wrap=True)
        for event in view.figures.events[-EVENTS_SHOWN:]
    ]
    foot = Text(view.doing, style="bold yellow") if view.doing else hint_text(view)
    title = f"[bold]Penstock[/bold]  {int(view.up_s) // 60}:{int(view.up_s) % 60:02d}"
    return Panel(Group(table, Text(), *events, Text(), foot), title=title, title_align="left")


def console_text(view: View) -> RenderableType:
    from rich.text import Text

    if view.phases[plan.CLUSTER] is Phase.STARTING:
        return Text(f"{view.url}/ in a moment", style="yellow")
    return Text(f"{view.url}/", style="bold cyan underline")


def brokers_text(view: View) -> RenderableType:
    from rich.text import Text

    if not view.figures.brokers or not view.figures.answers:
        return Text(cluster_words(view), style="yellow")
    text = Text()
    for broker in view.figures.brokers:
        style = "green" if broker.state == "running" else "bold red"
        controller = ", controller" if broker.id == view.figures.controller else ""
        text.append(f"{broker.id} ")
        text.append(broker.state, style=style)
        text.append(f" leads {broker.leads}{controller}    ")
    return text


def hint_text(view: View) -> RenderableType:
    from rich.text import Text

    if not view.is_live:
        return Text("Ctrl-C stops everything", style="dim")
    return Text.assemble(
        ("try: ", "bold"), f"open {view.url}/#/cluster and kill a leader; or\n", (hint(view.url), "cyan"),
        ("\nCtrl-C stops everything", "dim"),
    )  # fmt: skip
