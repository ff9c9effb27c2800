"""What the gateway tells, as the demo shows it: pure.

Answers may be of any shape while parts are missing or being started: what is not there is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

QUADRANT: Final = "traffic.r"
ELECTED: Final = "leader_elected"
TOLD: Final = frozenset(
    {
        "broker_fenced", "broker_unfenced", "controller_elected", "leader_lost", "node_ended", "node_ready",
        "gateway_ended", "gateway_ready", "supervisor_started",
    }
)  # fmt: skip
"""Kinds of events that are worth a line, besides elections."""


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    state: str
    leads: int
    """Partitions."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What the heat map job has made of the positions, see `penstock.traffic.heat`."""

    sent: int
    counted: int
    late: int
    duplicate: int
    malformed: int


@dataclass(frozen=True, slots=True)
class Heat:
    """The map at one moment."""

    cells: int = 0
    """With cars in them."""
    newest_ms: int | None = None
    totals: Totals | None = None

    def is_live(self, since_ms: int) -> bool:
        """Whether it shows cars of after that moment: a map that was kept has old heat on it."""
        return self.cells > 0 and self.newest_ms is not None and self.newest_ms >= since_ms


@dataclass(frozen=True, slots=True)
class Event:
    timestamp_ms: int
    kind: str
    text: str
    topic: str | None = None
    node: int | None = None
    """The new leader, of an election."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All that was told last."""

    answers: bool = False
    """Whether the gateway answers."""
    controller: int | None = None
    brokers: tuple[Broker, ...] = ()
    leaders: Mapping[str, int | None] = field(default_factory=dict)
    """Of the quadrants, by their names without the prefix."""
    heat: Heat = Heat()
    events: tuple[Event, ...] = ()
    """The newest last."""

    @property
    def running(self) -> int:
        return sum(broker.state == "running" for broker in self.brokers)


def read_brokers(status: Mapping[str, Any]) -> tuple[Broker, ...]:
    leaders = [
        partition.get("leader")
        for topic in status.get("topics", [])
        for partition in topic.get("partitions", [])
    ]
    return tuple(
        Broker(broker["id"], broker["state"], leaders.count(broker["id"]))
        for broker in status.get("brokers", [])
    )


def read_leaders(status: Mapping[str, Any]) -> dict[str, int | None]:
    """By partition 0: what `leader:TOPIC` means to `penstock cluster kill`."""
    return {
        topic["name"].removeprefix("traffic."): topic["partitions"][0].get("leader")
        for topic in status.get("topics", [])
        if topic["name"].startswith(QUADRANT) and topic.get("partitions")
    }


def read_heat(answer: Mapping[str, Any]) -> Heat:
    return Heat(
        cells=sum(cell.get("count", 0) > 0 for cell in answer.get("cells", [])),
        newest_ms=answer.get("newest"),
        totals=read_totals(answer.get("totals")),
    )


def read_totals(value: Mapping[str, Any] | None) -> Totals | None:
    if value is None:
        return None
    return Totals(*(int(value[name]) for name in ("sent", "counted", "late", "duplicate", "malformed")))


def read_events(answer: Mapping[str, Any]) -> list[Event]:
    return [
        Event(
            event["timestamp_ms"],
            event["kind"],
            event["text"],
            event.get("topic"),
            next(iter(event.get("nodes", ())), None),
        )
        for event in answer.get("events", [])
    ]


def told_events(events: Iterable[Event], leaders: Mapping[str, int | None]) -> list[Event]:
    """Those worth a line. The partitions of a quadrant change hands one by one, and that is told once:
    `leaders` are those that were told before, by topic."""
    known = dict(leaders)
    told: list[Event] = []
    for event in events:
        if event.kind == ELECTED and event.topic is not None and event.topic.startswith(QUADRANT):
            if known.get(event.topic) != event.node:
                known[event.topic] = event.node
                told.append(replace(event, text=f"{event.topic} is led by broker {event.node}"))
        elif event.kind in TOLD:
            told.append(event)
    return told


def told_leaders(told: Iterable[Event]) -> dict[str, int | None]:
    return {event.topic: event.node for event in told if event.kind == ELECTED and event.topic is not None}


def seconds_behind(heat: Heat, now_ms: int) -> float | None:
    """How old the newest position is that the map shows."""
    return None if heat.newest_ms is None else max(0.0, (now_ms - heat.newest_ms) / 1_000)
