r"""The cluster log as ShiViz reads it, with vector clocks: pure.

Two lines per event::

    node-1 {"node-1": 4, "supervisor": 2}
    orders-0 is led by 2 (was 3), epoch 5

The clocks say which event can have caused which. What the metadata log tells was decided by the active
controller of the time, and a new one has read all that came before. What a node does itself (it registers, it
ends) comes before the record of it, and what it is told (it leads, it is in sync again) comes after.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

SUPERVISOR = "supervisor"
UNKNOWN_CONTROLLER = "controller"
"""Of what was decided before the log begins to tell who decides."""

DONE_BY_NODES = ("broker_registered", "broker_stopping", "node_ready", "node_ended")
HEARD_BY_NODES = ("broker_unfenced", "isr_expanded", "leader_epochs_begun", "node_started")
HEARD_BY_FIRST = ("leader_elected",)
"""Of an election the new leader comes first; the old one may hear nothing any more."""

Clock = dict[str, int]


class Clocks:
    """One vector clock per host; each event of a host counts its own entry up by one."""

    def __init__(self) -> None:
        self._clocks: dict[str, Clock] = {}

    def tick(self, host: str, *seen: Clock) -> Clock:
        """The clock of a new event of `host`, which knows of the events that `seen` belongs to."""
        clock = dict(self._clocks.get(host, {}))
        for other in seen:
            for name, count in other.items():
                clock[name] = max(clock.get(name, 0), count)
        clock[host] = clock.get(host, 0) + 1
        self._clocks[host] = clock
        return clock


def trace_lines(events: Iterable[dict[str, Any]]) -> Iterator[str]:
    clocks = Clocks()
    controller = UNKNOWN_CONTROLLER
    log_end: Clock = {}
    """What is known to whoever has read the metadata log so far."""
    for event in events:
        nodes = [f"node-{node}" for node in event.get("nodes", [])]
        text = text_of(event)
        if event.get("source") == SUPERVISOR:
            host, seen = SUPERVISOR, [Clock()]
        else:
            if event["kind"] == "controller_elected" and nodes:
                controller = nodes[0]
            host, seen = controller, [log_end]
        for node in done_by(event, nodes, host):
            clock = clocks.tick(node)
            seen.append(clock)
            yield from lines(node, clock, text)
        clock = clocks.tick(host, *seen)
        yield from lines(host, clock, text)
        if host is controller:
            log_end = clock
        for node in heard_by(event, nodes, host):
            yield from lines(node, clocks.tick(node, clock), text)


def done_by(event: dict[str, Any], nodes: list[str], host: str) -> list[str]:
    return [node for node in nodes if node != host] if event["kind"] in DONE_BY_NODES else []


def heard_by(event: dict[str, Any], nodes: list[str], host: str) -> list[str]:
    heard = nodes if event["kind"] in HEARD_BY_NODES else nodes[:1] if event["kind"] in HEARD_BY_FIRST else []
    return [node for node in heard if node != host]


def text_of(event: dict[str, Any]) -> str:
    cause = f" ({event['cause']})" if event.get("cause") else ""
    return " ".join(f"{event['text']}{cause}".split())


def lines(host: str, clock: Clock, text: str) -> Iterator[str]:
    yield f"{host} {json.dumps(clock)}"
    yield text
