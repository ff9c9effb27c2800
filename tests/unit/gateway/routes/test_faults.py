"""Whom a signal is for."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

import pytest

from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.admin import KafkaAdmin, PartitionInfo
from penstock.gateway.routes.cluster import take_new
from penstock.gateway.routes.faults import Process, check_target, find_process, require_local, send_signal

STATE: dict[str, Any] = {
    "controller": 1,
    "brokers": [{"id": 1, "pid": 11}, {"id": 2, "pid": None}],
    "nodes": [{"id": 1001, "pid": 13}, {"id": "supervisor", "pid": 14}],
}


class Admin:
    def __init__(self, leader: int | None) -> None:
        self._leader = leader

    async def describe(self, topic: str) -> list[PartitionInfo]:
        assert topic == "t"
        return [PartitionInfo(0, self._leader, (1,), (1,))]


def find(target: str, state: dict[str, Any] = STATE, leader: int | None = 1) -> Process:
    return asyncio.run(find_process(state, target, cast("KafkaAdmin", Admin(leader))))


def test_targets() -> None:
    assert find("1") == Process("node 1", 11)
    assert find("1001") == Process("node 1001", 13)
    assert find("controller") == Process("node 1", 11)
    assert find("leader:t") == Process("node 1", 11)
    assert find("supervisor") == Process("the supervisor", 14)


@pytest.mark.parametrize(("target", "status"), [("2", 409), ("9", 404), ("gateway", 404)])
def test_targets_that_are_not_there(target: str, status: int) -> None:
    with pytest.raises(ApiFailure) as caught:
        find(target)
    assert caught.value.status == status


def test_nobody_leads_at_the_moment() -> None:
    for found in (
        lambda: find("leader:t", leader=None),
        lambda: find("controller", {**STATE, "controller": None}),
    ):
        with pytest.raises(ApiFailure) as caught:
            found()
        assert caught.value.status == 409


@pytest.mark.parametrize("target", ["", "-1", "leader:", "all", "1; rm", "controller "])
def test_what_is_no_target(target: str) -> None:
    with pytest.raises(ApiFailure, match="'target' is none of"):
        check_target(target)


def test_only_on_this_machine() -> None:
    require_local("http://127.0.0.1:1")
    with pytest.raises(ApiFailure, match="not on the gateway's machine"):
        require_local("http://192.0.2.1:1")


def test_a_process_of_somebody_else_is_left_alone() -> None:
    with pytest.raises(ApiFailure, match="what is known of it is old"):
        send_signal(Process("node 1", 1 if os.getpid() != 1 else os.getppid()), "CONT")


def test_events_are_told_once() -> None:
    seen: dict[str | None, int] = {}
    first = {"events": [{"offset": 3, "text": "a"}, {"offset": 3, "text": "b"}, {"offset": 0, "source": "s"}]}
    assert take_new(first, seen) == first["events"]
    assert take_new(first, seen) == []
    more = {"events": [*first["events"], {"offset": 4}, {"offset": 1, "source": "s"}]}
    assert take_new(more, seen) == [{"offset": 4}, {"offset": 1, "source": "s"}]
