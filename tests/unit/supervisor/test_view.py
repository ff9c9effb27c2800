from __future__ import annotations

from typing import Any

import pytest

from penstock.supervisor.layout import ClusterLayout, NodeSpec
from penstock.supervisor.view import (
    Cursor,
    Seen,
    active_controller,
    cluster_status,
    is_fenced,
    merged_log,
)

LAYOUT = ClusterLayout(
    "abc",
    (
        NodeSpec(1, ("broker", "controller"), "0.0.0.0", 9092),
        NodeSpec(2, ("broker",), "0.0.0.0", 9093),
        NodeSpec(1001, ("controller",), "0.0.0.0", 30_000),
    ),
)
RUNNING = {1: Seen(11, "running"), 2: Seen(12, "running"), 1001: Seen(13, "running")}
SUPERVISOR = {"supervisor": Seen(10, "running")}


def answer(
    controller: int | None, ends: dict[str, int | None], leader: int | None = 1, **state: str
) -> dict[str, Any]:
    return {
        "cluster_id": "abc",
        "controller": controller,
        "brokers": [
            {"id": 1, "host": "here", "port": 9092, "pid": None, "state": "running", "roles": ["broker"]},
            {
                "id": 2,
                "host": "here",
                "port": 9093,
                "pid": 5,
                "state": state.get("two", "running"),
                "roles": [],
            },
        ],
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition": 0,
                        "leader": leader,
                        "leader_epoch": 3,
                        "replicas": [1, 2],
                        "isr": [1],
                        "high_watermark": end,
                    }
                ],
            }
            for name, end in ends.items()
        ],
    }


def test_the_status_of_processes_and_what_nodes_say() -> None:
    answers = {1: answer(1, {"t": 17}), 2: answer(1, {"t": 12}), 1001: answer(1, {"t": None})}
    assert cluster_status(LAYOUT, RUNNING, answers, SUPERVISOR) == {
        "cluster_id": "abc",
        "controller": 1,
        "brokers": [
            {
                "id": 1,
                "host": "here",
                "port": 9092,
                "pid": 11,
                "state": "running",
                "roles": ["broker", "controller"],
                "rack": None,
            },
            {
                "id": 2,
                "host": "here",
                "port": 9093,
                "pid": 12,
                "state": "running",
                "roles": ["broker"],
                "rack": None,
            },
        ],
        "topics": [
            {
                "name": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "leader": 1,
                        "leader_epoch": 3,
                        "replicas": [1, 2],
                        "isr": [1],
                        "high_watermark": 17,
                    }
                ],
            }
        ],
        "nodes": [
            {"id": 1001, "pid": 13, "state": "running", "roles": ["controller"]},
            {"id": "supervisor", "pid": 10, "state": "running", "roles": ["supervisor"]},
        ],
    }


def test_nobody_answers() -> None:
    down = {1: Seen(None, "down"), 2: Seen(12, "starting"), 1001: Seen(13, "paused")}
    status = cluster_status(LAYOUT, down, {}, SUPERVISOR)
    assert status["controller"] is None
    assert status["topics"] == []
    assert [(each["id"], each["host"], each["pid"], each["state"]) for each in status["brokers"]] == [
        (1, "0.0.0.0", None, "down"),
        (2, "0.0.0.0", 12, "starting"),
    ]
    assert status["nodes"][0] == {"id": 1001, "pid": 13, "state": "paused", "roles": ["controller"]}


def test_a_process_that_runs_may_be_fenced_and_one_that_does_not_is_down() -> None:
    answers = {1: answer(1, {}, two="fenced")}
    states = [each["state"] for each in cluster_status(LAYOUT, RUNNING, answers, {})["brokers"]]
    assert states == ["running", "fenced"]
    processes = RUNNING | {2: Seen(None, "down")}
    states = [each["state"] for each in cluster_status(LAYOUT, processes, answers, {})["brokers"]]
    assert states == ["running", "down"]


def test_whether_the_others_have_fenced_a_broker() -> None:
    stale, newest = answer(1001, {}), answer(1001, {}, two="fenced")
    assert is_fenced({1: stale, 1001: newest}, 2)
    assert not is_fenced({1: stale, 1001: newest}, 1)
    assert not is_fenced({1: newest, 1001: stale}, 2)
    assert not is_fenced({}, 2), "nobody says so"


def test_the_active_controller_s_view_is_the_newest() -> None:
    answers = {1: answer(1001, {"old": 1}), 1001: answer(1001, {"new": None})}
    topics = cluster_status(LAYOUT, RUNNING, answers, {})["topics"]
    assert [topic["name"] for topic in topics] == ["new"]


@pytest.mark.parametrize(("leader", "answering"), [(None, 1), (2, 1)])
def test_no_high_watermark_without_the_leader(leader: int | None, answering: int) -> None:
    answers = {answering: answer(1, {"t": 17}, leader)}
    partition = cluster_status(LAYOUT, RUNNING, answers, {})["topics"][0]["partitions"][0]
    assert partition["high_watermark"] is None


@pytest.mark.parametrize(
    ("named", "controller"),
    [
        ({}, None),
        ({1: None, 2: None}, None),
        ({1: 3, 2: 3}, 3),
        ({1: 1, 2: 3, 4: 3}, 1),  # who leads knows it first
        ({1: 1, 2: 2, 3: 2}, 2),  # one of them was replaced and has not heard of it
    ],
)
def test_who_is_the_active_controller(named: dict[int, int | None], controller: int | None) -> None:
    assert active_controller({node: {"controller": each} for node, each in named.items()}) == controller


# The cluster log


def event(offset: int, timestamp_ms: int) -> dict[str, Any]:
    return {"offset": offset, "timestamp_ms": timestamp_ms, "text": f"{offset}"}


def test_both_parts_of_the_log_in_the_order_of_time() -> None:
    cluster, supervisor = [event(5, 100), event(5, 100), event(9, 90)], [event(0, 95), event(1, 100)]
    told = merged_log(cluster, supervisor, Cursor())
    assert [(each["source"], each["offset"]) for each in told["events"]] == [
        ("cluster", 9),
        ("supervisor", 0),
        ("cluster", 5),
        ("cluster", 5),
        ("supervisor", 1),
    ]
    assert told["after"] == "9.1"


def test_going_on_with_the_log() -> None:
    cluster, supervisor = [event(5, 100), event(9, 110)], [event(0, 95), event(1, 100)]
    told = merged_log(cluster, supervisor, Cursor.parse("5.0"))
    assert [(each["source"], each["offset"]) for each in told["events"]] == [
        ("supervisor", 1),
        ("cluster", 9),
    ]
    assert merged_log(cluster, supervisor, Cursor.parse(told["after"])) == {"events": [], "after": "9.1"}
    # A new supervisor that has not heard of the nodes yet does not send a reader back to the beginning.
    assert merged_log([], supervisor, Cursor.parse("9.1"))["after"] == "9.1"


@pytest.mark.parametrize("text", ["", "1", "a.b", "1.2.3", ".", "9" * 5_000 + ".1"])
def test_what_is_no_cursor(text: str) -> None:
    with pytest.raises(ValueError):
        Cursor.parse(text)
