"""What `penstock cluster elect` decides, from what a cluster tells of itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli.cluster_elect import Election, plan
from penstock.cli.cluster_reassignments import require_all
from penstock.cli.options import split_partition
from penstock.cli.output import CommandFailed, WrongUsage

LIVE = {1, 2, 3, 4}


def partition(leader: int, replicas: list[int], isr: list[int]) -> Any:
    return SimpleNamespace(leader=leader, replicas=replicas, isrs=isr)


def only(told: Any, leader: int | None, live: set[int] = LIVE, moving: set[int] | None = None) -> Election:
    (election,) = plan({0: told}, leader, live, moving or set())
    return election


def test_back_to_the_preferred_replicas() -> None:
    partitions = {
        0: partition(1, [1, 2, 3], [1, 2, 3]),
        1: partition(3, [2, 3, 1], [1, 2, 3]),
        2: partition(-1, [3, 1, 2], [3]),
    }
    assert plan(partitions, None, LIVE, ()) == [
        Election(1, 3, 2, "it is preferred", is_possible=True),
        Election(2, None, 3, "it is preferred", is_possible=True),
    ]


def test_a_wanted_leader_becomes_the_first_of_the_same_replicas() -> None:
    election = only(partition(1, [1, 2, 3], [1, 2, 3]), 3)
    assert election == Election(0, 1, 3, "replicas become 3,1,2", is_possible=True, order=(3, 1, 2))


def test_who_is_preferred_already_needs_no_other_order() -> None:
    assert only(partition(1, [3, 1, 2], [1, 2, 3]), 3).order is None


def test_who_leads_already_is_left_alone() -> None:
    assert plan({0: partition(3, [1, 2, 3], [1, 2, 3])}, 3, LIVE, ()) == []


@pytest.mark.parametrize(
    ("told", "leader", "live", "why"),
    [
        (partition(1, [1, 2], [1, 2]), 4, LIVE, "broker 4 has no replica of it"),
        (partition(1, [1, 2], [1]), 2, LIVE, "broker 2 is not in sync"),
        (partition(1, [1, 2], [1, 2]), 2, {1}, "broker 2 is not running"),
        (partition(1, [2, 1], [1]), None, LIVE, "broker 2 is not in sync"),
    ],
)
def test_why_a_broker_cannot_lead(told: Any, leader: int | None, live: set[int], why: str) -> None:
    election = only(told, leader, live)
    assert (election.why, election.is_possible) == (why, False)


def test_the_order_of_what_is_being_moved_stays() -> None:
    election = only(partition(1, [1, 2, 4], [1, 2]), 2, moving={0})
    assert (election.why, election.is_possible) == ("its replicas are being moved", False)


def test_failures_are_one_line() -> None:
    require_all("t", {})
    with pytest.raises(CommandFailed, match=r"^t-1: so$"):
        require_all("t", {1: "so"})
    with pytest.raises(CommandFailed, match=r"^t-1: so, and 2 more$"):
        require_all("t", {3: "a", 1: "so", 2: "b"})


def test_how_partitions_are_named() -> None:
    assert split_partition("t") == ("t", None)
    assert split_partition("t:12") == ("t", 12)


@pytest.mark.parametrize("wanted", ["", ":1", "t:", "t:x", "t:-1", "t:1:2"])
def test_what_names_no_partition(wanted: str) -> None:
    with pytest.raises(WrongUsage):
        split_partition(wanted)
