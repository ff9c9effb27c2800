"""`penstock up --brokers N --racks …`: where brokers stand, what that does, and that it lasts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.commands import penstock
from tests.support.load import create_replicated
from tests.support.nearby_consumer import NearbyConsumer
from tests.support.supervised import SupervisedCluster
from tests.support.topics import fill
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker import BrokerProcess

RACKS = ("north", "south")
VALUES = [b"%d" % number for number in range(100)]


def status(cluster: SupervisedCluster) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(penstock("cluster", "status", "--json", broker=cluster).lines[0])
    return told


def racks(cluster: SupervisedCluster) -> list[str | None]:
    return [broker["rack"] for broker in status(cluster)["brokers"]]


def partitions(cluster: SupervisedCluster, topic: str) -> list[dict[str, Any]]:
    return next((each["partitions"] for each in cluster.status()["topics"] if each["name"] == topic), [])


def test_replicas_spread_over_racks_and_consumers_read_in_theirs(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, "--racks", ",".join(RACKS), brokers=4) as cluster:
        assert racks(cluster) == ["north", "south", "north", "south"]
        lines = penstock("cluster", "status", broker=cluster).lines
        assert lines[1].split()[-2:] == ["RACK", "BUSY"]
        assert [line.split()[-2] for line in lines[2:6]] == ["north", "south", "north", "south"]
        without = penstock("cluster", "status", "--json", "--http", "http://127.0.0.1:1", broker=cluster)
        assert [broker["rack"] for broker in json.loads(without.lines[0])["brokers"]] == racks(cluster)

        create_replicated(cluster.bootstrap, "spread", 12, 2)
        wait_until(lambda: len(partitions(cluster, "spread")) == 12, "the topic")
        for partition in partitions(cluster, "spread"):
            assert {(broker - 1) % 2 for broker in partition["replicas"]} == {0, 1}, partition

        create_replicated(cluster.bootstrap, "near", 1, 2)
        fill(cluster.bootstrap, "near", VALUES)
        wait_until(
            lambda: [len(each["isr"]) for each in partitions(cluster, "near")] == [2], "both are in sync"
        )
        leader, follower = partitions(cluster, "near")[0]["replicas"]
        consumer = NearbyConsumer(cluster.bootstrap, "near", RACKS[(follower - 1) % 2])
        try:
            wait_until(lambda: consumer.fetches().get(follower, 0) > 5, "fetches from the follower")
            wait_until(lambda: consumer.poll() or len(consumer.values) >= len(VALUES), "all messages")
            assert consumer.values == VALUES
            asked = consumer.fetches().get(leader, 0)
            before = consumer.fetches()[follower]
            wait_until(lambda: consumer.fetches()[follower] > before + 5, "more of them")
            assert consumer.fetches().get(leader, 0) <= asked + 1, "the leader was asked where to read"
        finally:
            consumer.close()


def test_racks_last_until_others_are_named(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, "--racks", "a,b,c", brokers=2) as cluster:
        assert racks(cluster) == ["a", "b"]
        for options, wanted in (
            (("--brokers", "3"), ["a", "b", "c"]),
            (("--racks", "x,y"), ["x", "y", "x"]),
            ((), ["x", "y", "x"]),
            (("--racks", ""), [None, None, None]),
        ):
            assert cluster.terminate() == 0
            cluster.options = options
            cluster.start()
            assert racks(cluster) == wanted
        # What the brokers say themselves.
        without = penstock("cluster", "status", "--json", "--http", "http://127.0.0.1:1", broker=cluster)
        assert [broker["rack"] for broker in json.loads(without.lines[0])["brokers"]] == [None] * 3


def test_racks_that_cannot_be(tmp_path: Path, broker: BrokerProcess) -> None:
    at = ("up", "--data", str(tmp_path / "refused"))
    for options, line in (
        (("--racks", "a"), "see --brokers"),
        (("--brokers", "2", "--racks", "a,,b"), "not a name of 1 to 255 characters"),
    ):
        refused = penstock(*at, *options)
        assert refused.code == 2
        assert line in refused.err
    assert not (tmp_path / "refused").exists()
    (told,) = json.loads(penstock("cluster", "status", "--json", broker=broker).lines[0])["brokers"]
    assert told["rack"] is None
