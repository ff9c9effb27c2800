from __future__ import annotations

from typing import Any

from penstock.demo.figures import (
    Broker,
    Event,
    Figures,
    Heat,
    Totals,
    read_brokers,
    read_events,
    read_heat,
    read_leaders,
    seconds_behind,
    told_events,
    told_leaders,
)

STATUS: dict[str, Any] = {
    "brokers": [{"id": 1, "state": "running"}, {"id": 2, "state": "down"}],
    "topics": [
        {"name": "other", "partitions": [{"leader": 1}]},
        {"name": "traffic.r0.c0", "partitions": [{"leader": 1}, {"leader": 2}]},
        {"name": "traffic.r1.c0", "partitions": [{"leader": None}]},
        {"name": "traffic.heatmap", "partitions": [{"leader": 1}]},
    ],
}
TOTALS = {"sent": 10, "counted": 6, "late": 1, "duplicate": 2, "malformed": 1, "reasons": {"json": 1}}


def test_brokers_with_what_they_lead() -> None:
    assert read_brokers(STATUS) == (Broker(1, "running", 3), Broker(2, "down", 1))
    assert Figures(brokers=read_brokers(STATUS)).running == 1


def test_leaders_of_quadrants_alone() -> None:
    assert read_leaders(STATUS) == {"r0.c0": 1, "r1.c0": None}


def test_a_cluster_that_knows_nothing_yet() -> None:
    assert read_brokers({}) == ()
    assert read_leaders({"topics": [{"name": "traffic.r0.c0", "partitions": []}]}) == {}


def test_the_map_is_live_when_there_is_heat_on_it() -> None:
    answer = {"cells": [{"count": 3}, {"count": 0}], "newest": 5_000, "totals": TOTALS}
    heat = read_heat(answer)
    assert heat == Heat(1, 5_000, Totals(10, 6, 1, 2, 1))
    assert heat.is_live(since_ms=5_000)
    assert not heat.is_live(since_ms=5_001)
    assert not read_heat({"cells": [], "newest": None, "totals": None}).is_live(0)
    assert not read_heat({**answer, "cells": [{"count": 0}]}).is_live(0)
    assert not Heat().is_live(0)


def test_how_far_the_map_is_behind() -> None:
    assert seconds_behind(Heat(newest_ms=5_000), 6_500) == 1.5
    assert seconds_behind(Heat(newest_ms=5_000), 4_000) == 0.0
    assert seconds_behind(Heat(), 4_000) is None


def test_events_are_those_that_somebody_watching_wants_to_see() -> None:
    told = read_events(
        {
            "events": [
                event("topic_created", topic="traffic.r0.c0"),
                event("node_ended", nodes=[2]),
                event("leader_elected", topic="traffic.r0.c0", nodes=[3, 2]),
                event("leader_elected", topic="traffic.r0.c0", nodes=[3, 2]),
                event("leader_elected", topic="other", nodes=[3, 2]),
                event("isr_shrunk", topic="traffic.r0.c0", nodes=[2]),
                event("leader_elected", topic="traffic.r0.c0", nodes=[1, 3]),
            ]
        }
    )
    shown = told_events(told, {})
    assert [each.text for each in shown] == [
        "node_ended",
        "traffic.r0.c0 is led by broker 3",
        "traffic.r0.c0 is led by broker 1",
    ]
    assert told_leaders(shown) == {"traffic.r0.c0": 1}


def test_an_election_that_was_told_is_not_told_again() -> None:
    elected = Event(1, "leader_elected", "x", "traffic.r0.c0", 3)
    assert told_events([elected], {"traffic.r0.c0": 3}) == []


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp_ms": 1, "kind": kind, "text": kind, "offset": 0, **fields}
