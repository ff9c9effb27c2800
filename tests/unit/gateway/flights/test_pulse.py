"""Heartbeats, and the state of a cluster with them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.flights.records import Heartbeat
from penstock.gateway.flights.pulse import Beat, Pulse, with_heartbeats

BEAT = Heartbeat("flights", 42, "here", "running", 1_000, 500, {"jobs": 7})


@pytest.mark.parametrize(
    ("age_ms", "state"),
    [(0, "running"), (5_000, "running"), (5_001, "late"), (15_000, "late"), (15_001, "down")],
)
def test_the_state_follows_from_the_age(age_ms: int, state: str) -> None:
    assert Beat(BEAT, 1_000).state(1_000 + age_ms) == state


def test_a_heartbeat_counts_from_when_it_was_seen() -> None:
    pulse = Pulse()
    assert (pulse.state(0), pulse.quotas) == ("not started", {})
    pulse.apply(b"flights", BEAT.to_json(), 90_000, is_old=False)
    assert (pulse.state(91_000), pulse.quotas) == ("running", {"jobs": 7})
    pulse.apply(b"flights", BEAT.to_json(), 90_000, is_old=True)
    assert pulse.state(91_000) == "down"
    pulse.apply(b"flights", BEAT.to_json(), 700, is_old=True)  # written by a clock that is ahead
    assert pulse.last == Beat(BEAT, 700)


def test_records_that_are_no_heartbeats() -> None:
    pulse = Pulse()
    pulse.apply(b"flights", BEAT.to_json(), 1_000, is_old=False)
    for key, value in ((b"flights", b"x"), (b"flights", b"[]"), (b"other", BEAT.to_json()), (None, None)):
        pulse.apply(key, value, 2_000, is_old=False)
    assert (pulse.refused, pulse.last) == (4, Beat(BEAT, 1_000))
    pulse.apply(b"flights", None, 2_000, is_old=False)
    assert pulse.last is None


def node(name: str, pid: int | None, state: str = "running") -> dict[str, Any]:
    return {"id": name, "pid": pid, "state": state, "roles": [name]}


def test_a_service_that_no_supervisor_knows() -> None:
    told = {"cluster_id": "c", "brokers": []}
    assert with_heartbeats(told, None, 0) == told
    assert with_heartbeats(told, Beat(BEAT, 1_000), 8_000)["nodes"] == [
        {**node("flights", 42, "late"), "host": "here", "heartbeat_ms": 1_000}
    ]


@pytest.mark.parametrize(
    ("pid", "state", "now_ms", "shown", "heartbeat_ms"),
    [
        (42, "running", 2_000, "running", 1_000),
        (42, "running", 60_000, "late", 1_000),
        (42, "paused", 60_000, "paused", 1_000),
        (43, "starting", 2_000, "starting", None),  # the heartbeat is of the process before it
        (None, "down", 2_000, "down", None),
    ],
)
def test_a_service_of_the_supervisor(
    pid: int | None, state: str, now_ms: int, shown: str, heartbeat_ms: int | None
) -> None:
    told = {"nodes": [node("gateway", 7), node("flights", pid, state), node("supervisor", 8)]}
    gateway, flights, supervisor = with_heartbeats(told, Beat(BEAT, 1_000), now_ms)["nodes"]
    assert gateway["heartbeat_ms"] == now_ms
    assert (flights["state"], flights.get("heartbeat_ms")) == (shown, heartbeat_ms)
    assert "heartbeat_ms" not in supervisor
    assert "heartbeat_ms" not in told["nodes"][0], "what was told stays as it was"
