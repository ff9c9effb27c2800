"""`penstock cluster elect` and `move` on a real cluster of three, while clients write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.cluster import Cluster
from tests.support.commands import Finished, penstock
from tests.support.load import create_replicated, under_load
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS, REPLICAS = 3, 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("by-hand"), brokers=3) as started:
        yield started


def run(cluster: Cluster, *arguments: str, stdin: str = "") -> Finished:
    return penstock("cluster", *arguments, "--bootstrap", cluster.bootstrap, stdin=stdin)


def created(cluster: Cluster, topic: str, replicas: int = REPLICAS) -> str:
    create_replicated(cluster.bootstrap, topic, PARTITIONS, replicas)
    cluster.wait_healed([topic])
    return topic


def leaders(cluster: Cluster, topic: str) -> list[int | None]:
    return [cluster.partition(topic, index).get("leader") for index in range(PARTITIONS)]


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    return [cluster.partition(topic, index).get("replicas", []) for index in range(PARTITIONS)]


def wait_led(cluster: Cluster, topic: str, wanted: list[int]) -> None:
    wait_until(lambda: leaders(cluster, topic) == wanted, f"{topic} led by {wanted}")


def test_one_broker_leads_and_leadership_goes_back(cluster: Cluster) -> None:
    topic = created(cluster, "elected")
    with under_load(cluster.bootstrap, topic, PARTITIONS) as load:
        told = run(cluster, "elect", topic, "--leader", "2", "--yes")
        assert told.lines[0].split() == ["TOPIC", "PARTITION", "LEADER", "NEW", "LEADER", "WHY"]
        assert told.lines[-1] == f"2 partitions of {topic} got another leader"
        wait_led(cluster, topic, [2, 2, 2])
        load.goes_on()
        assert all(each[0] == 2 and sorted(each) == [1, 2, 3] for each in replicas(cluster, topic))
        # Whoever comes back does not lead by itself.
        cluster.brokers[2].kill()
        wait_until(lambda: None not in leaders_without(cluster, topic, 2), "other leaders")
        cluster.brokers[2].start()
        cluster.wait_healed([topic])
        assert 2 not in leaders(cluster, topic)
        refused = run(cluster, "elect", topic, stdin="n\n")
        assert refused.code == 1
        assert "it is preferred" in refused.out
        assert 2 not in leaders(cluster, topic)
        (line,) = run(cluster, "elect", f"{topic}:1", "--yes", "--json").lines
        (partition,) = json.loads(line)["partitions"]
        assert (partition["partition"], partition["new_leader"], partition["elected"]) == (1, 2, True)
        wait_until(lambda: leaders(cluster, topic)[1] == 2, "one partition is led as preferred")
        assert leaders(cluster, topic).count(2) == 1
        assert run(cluster, "elect", topic, "--yes").code == 0
        wait_led(cluster, topic, [2, 2, 2])
    assert "led by its preferred replica already" in run(cluster, "elect", topic).out


def leaders_without(cluster: Cluster, topic: str, gone: int) -> list[int | None]:
    return [None if leader == gone else leader for leader in leaders(cluster, topic)]


def test_elections_that_cannot_be_held_are_one_line(cluster: Cluster) -> None:
    topic = created(cluster, "not-elected", replicas=2)
    holders = replicas(cluster, topic)
    index = next(index for index, held in enumerate(holders) if 3 not in held)
    refused = run(cluster, "elect", f"{topic}:{index}", "--leader", "3", "--yes")
    assert refused.complaint == f"{topic}-{index}: broker 3 has no replica of it"
    assert replicas(cluster, topic) == holders
    assert run(cluster, "elect", topic, "--leader", "9", "--yes").complaint == "no broker 9 is running"
    assert run(cluster, "elect", "nothing").complaint == "topic 'nothing' does not exist"
    assert run(cluster, "elect", f"{topic}:7").complaint == f"topic '{topic}' has no partition 7"
    assert "not of the form" in run(cluster, "elect", f"{topic}:x").usage_complaint
    unanswered = run(cluster, "elect", f"{topic}:{index}", "--leader", str(holders[index][1]), "--json")
    assert unanswered.complaint == "--json needs --yes: nobody would see the question"
