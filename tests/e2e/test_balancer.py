"""The balancer on real clusters: it brings back, borrows and evens out, without a command, and says why."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
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
SENSITIVE = (
    "[cluster]",
    "balancer_calm_ms = 1000",
    "balancer_window_ms = 2000",
    "balancer_busy_percent = 15",
    "balancer_room_percent = 95",
    "balancer_calm_percent = 10",
)
"""One machine makes no broker busy and leaves others idle: what is done then is shown with less."""
QUICK = ("[cluster]", "balancer_grace_ms = 2000", "balancer_calm_ms = 1000", "balancer_window_ms = 2000")
BALANCED_S_MAX = 60.0
UNDER_WAY = 100
"""Messages that are not acknowledged."""


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


class Heat:
    """One message after the other, numbered, to each partition of a topic, as fast as they go."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 1}
        )
        self.sent = 0
        """To each partition."""

    def _produce(self) -> None:
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                while not self._try(partition):
                    self._producer.poll(0.01)
            self.sent += 1
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def _try(self, partition: int) -> bool:
        if len(self._producer) > UNDER_WAY:
            return False
        self._producer.produce(self._topic, b"%d" % self.sent, partition=partition)
        return True

    def __enter__(self) -> Heat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def numbers_in(bootstrap: str, topic: str, count: int) -> list[list[int]]:
    """The messages of each partition, in their order; `count` are waited for, and then a moment longer."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]

    def read() -> bool:
        for message in consumer.consume(10_000, 0.5):
            if message.error() is None:
                found[message.partition() or 0].append(int(message.value() or b""))
        return all(len(each) >= count for each in found)

    wait_until(read, "all messages", timeout_s=BALANCED_S_MAX)
    read()
    consumer.close()
    return found


def test_a_hot_topic_gets_additional_leaders_until_its_load_subsides(tmp_path: Path) -> None:
    """Its partitions were packed on one leader. Their order, and all that was acknowledged, are kept."""
    with Cluster(tmp_path, brokers=3, settings=SENSITIVE, balancer="on") as cluster:
        client = admin(cluster.bootstrap)
        packed = NewTopic("t", PARTITIONS, replica_assignment=[[1, 2, 3]] * PARTITIONS)
        client.create_topics([packed])["t"].result(30)
        cluster.wait_healed(["t"])
        with Heat(cluster.bootstrap, "t") as heat:
            wait_until(
                lambda: {each["leader"] for each in partitions(cluster)} > {1},
                "additional leaders",
                timeout_s=BALANCED_S_MAX,
            )
        assert any(cause.startswith("spread: broker 1 is busy at ") for cause in causes(cluster, "spread"))
        wait_until(
            lambda: all_are(cluster, lambda each: each["leader"] == 1),
            "one leader again",
            timeout_s=BALANCED_S_MAX,
        )
        assert numbers_in(cluster.bootstrap, "t", heat.sent) == [list(range(heat.sent))] * PARTITIONS


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
