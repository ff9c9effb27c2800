"""The balancer on real clusters: it brings back, borrows and evens out, without a command, and says why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import NewTopic

from tests.support.cluster import Cluster
from tests.support.commands import penstock
from tests.support.load import under_load
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PARTITIONS = 6
QUICK = ("[cluster]", "balancer_grace_ms = 2000", "balancer_calm_ms = 1000", "balancer_window_ms = 2000")
BALANCED_S_MAX = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Four brokers; the topic lies on the first three."""
    with Cluster(tmp_path, brokers=4, settings=QUICK, balancer="on") as cluster:
        create(cluster, "t", 3)
        yield cluster


def create(cluster: Cluster, topic: str, brokers: int) -> None:
    places = [[(first + step) % brokers + 1 for step in range(3)] for first in range(PARTITIONS)]
    client = admin(cluster.bootstrap)
    client.create_topics([NewTopic(topic, PARTITIONS, replica_assignment=places)])[topic].result(30)
    cluster.wait_healed([topic])


def partitions(cluster: Cluster) -> list[dict[str, Any]]:
    """As the first broker that answers knows them: one that has just started may know none yet."""
    found = (each for each in cluster.status().get("topics", []) if each["name"] == "t")
    return list(next(found, {"partitions": []})["partitions"])


def all_are(cluster: Cluster, condition: Callable[[dict[str, Any]], bool]) -> bool:
    found = partitions(cluster)
    return len(found) == PARTITIONS and all(condition(each) for each in found)


def causes(cluster: Cluster, rule: str) -> set[str]:
    return {
        event["cause"]
        for event in cluster.events()
        if event.get("topic") == "t" and (event.get("cause") or "").startswith(f"{rule}: ")
    }


def kinds(cluster: Cluster, kind: str) -> set[int]:
    """The partitions of which the cluster log tells this."""
    return {
        event["partition"]
        for event in cluster.events()
        if event.get("topic") == "t" and event["kind"] == kind
    }


def test_leaders_are_even_again_after_a_broker_was_killed_and_came_back(tmp_path: Path) -> None:
    """With the settings as they are, and while clients write."""
    with Cluster(tmp_path, brokers=3, balancer="on") as cluster:
        create(cluster, "t", 3)
        with under_load(cluster.bootstrap, "t", PARTITIONS) as load:
            cluster.brokers[1].kill()
            wait_until(lambda: all_are(cluster, lambda each: each["leader"] in (2, 3)), "two leaders for all")
            cluster.brokers[1].start()
            wait_until(
                lambda: all_are(cluster, lambda each: each["leader"] == each["replicas"][0]),
                "all preferred leaders lead",
                timeout_s=BALANCED_S_MAX,
            )
            load.goes_on()
        (cause,) = causes(cluster, "consolidate")
        assert cause.startswith(
            "consolidate: its preferred leader has been in sync, with time to spare, for "
        )


def test_a_broker_is_borrowed_while_one_is_away_and_given_back_when_it_returns(cluster: Cluster) -> None:
    with under_load(cluster.bootstrap, "t", PARTITIONS) as load:
        cluster.brokers[2].kill()
        wait_until(
            lambda: all_are(cluster, lambda each: set(each["isr"]) == {1, 3, 4}),
            "broker 4 helps out",
            timeout_s=BALANCED_S_MAX,
        )
        assert all_are(cluster, lambda each: set(each["replicas"]) == {1, 2, 3, 4})
        (cause,) = {text.partition(" for ")[0] for text in causes(cluster, "replenish")}
        assert cause == "replenish: 2 of 3 replicas have been in service"
        cluster.brokers[2].start()
        wait_until(
            lambda: (
                all_are(cluster, lambda each: len(each["isr"]) == len(each["replicas"]) == 3)
                and len(kinds(cluster, "replica_given_back")) == PARTITIONS
            ),
            "what was borrowed is given back",
            timeout_s=BALANCED_S_MAX,
        )
        load.goes_on()


def test_a_broker_that_holds_nothing_gets_its_share(cluster: Cluster) -> None:
    with under_load(cluster.bootstrap, "t", PARTITIONS) as load:
        wait_until(
            lambda: (
                sum(4 in each["replicas"] for each in partitions(cluster)) >= 4
                and not any(len(each["replicas"]) != 3 for each in partitions(cluster))
            ),
            "broker 4 has its share",
            timeout_s=BALANCED_S_MAX,
        )
        load.goes_on()
    assert any("replicas, broker 4 has " in cause for cause in causes(cluster, "even"))


def test_what_is_proposed_is_only_said(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=3, settings=QUICK, balancer="propose") as cluster:
        create(cluster, "t", 3)
        cluster.brokers[1].kill()
        wait_until(lambda: all_are(cluster, lambda each: each["leader"] in (2, 3)), "two leaders")
        cluster.brokers[1].start()
        wait_until(
            lambda: any(
                "the balancer proposes: t-0 is to be led by 1 (consolidate: " in node.log
                for node in cluster.nodes.values()
            ),
            "a proposal",
            timeout_s=BALANCED_S_MAX,
        )
        assert not causes(cluster, "consolidate")
        assert all_are(cluster, lambda each: each["leader"] in (2, 3))
        at = ("--bootstrap", cluster.bootstrap)
        shown = penstock("cluster", "balance", "--dry-run", "--json", *at)
        moves = json.loads(shown.out)["moves"]
        assert {(move["topic"], move["partition"]) for move in moves} >= {("t", 0), ("t", 3)}
        assert all_are(cluster, lambda each: each["leader"] in (2, 3))
        said = penstock("cluster", "balance", "--yes", *at)
        assert "t-0 is to be led by 1" in said.out
        assert said.lines[-1].endswith("made; see `penstock cluster log`")
        wait_until(
            lambda: all_are(cluster, lambda each: each["leader"] == each["replicas"][0]), "leaders are even"
        )
        assert penstock("cluster", "balance", *at).lines == [
            "the cluster is balanced: there is nothing to do"
        ]
