"""A coordinator is stopped, replaced, and wakes to the requests of a second life: each message comes once.

The second life of a publisher and of a subscriber knows the old coordinator's address alone, and its requests
wait there when it wakes: it answers them before it has heard that it was replaced, if it ever does.

PENSTOCK_LIVES is how often that happens.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from penstock import Publisher, Subscriber
from penstock.client.pubsub.messages import name_of
from penstock.groups.placement import partition_for
from tests.support.cluster import Cluster, NodeProcess
from tests.support.exact_producer import create_topic_in_sync
from tests.support.raw import RawClient, all_records, read_all
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIVES = int(os.environ.get("PENSTOCK_LIVES", "1"))
OFFSETS_TOPIC = "__consumer_offsets"
QUEUED_S = 0.1
"""For the second life to get its requests to a broker that stands still."""
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The controller is apart, so that stopping a broker stops nothing else."""
    quick = ["[cluster]", "broker_session_ms = 800", "broker_heartbeat_ms = 200"]
    with Cluster(tmp_path_factory.mktemp("lives"), brokers=3, controllers=1, settings=quick) as started:
        yield started


def coordinator_of(cluster: Cluster, group: str) -> tuple[NodeProcess, int]:
    """The broker, and the partition of the offsets that it leads."""

    def count() -> int:
        found = next((each for each in cluster.status()["topics"] if each["name"] == OFFSETS_TOPIC), None)
        return len(found["partitions"]) if found else 0

    index = partition_for(group, wait_until(count, "the topic of offsets"))
    return cluster.leader_of(OFFSETS_TOPIC, index), index


def replaced(
    cluster: Cluster, group: str, first_life: Callable[[], None], second_life: Callable[[str], None]
) -> None:
    """The first life goes on with another coordinator; the old one wakes to what the second life asks it."""
    cluster.wait_healed([OFFSETS_TOPIC])
    old, index = coordinator_of(cluster, group)
    others = [node for node in cluster.brokers.values() if node is not old]
    failures: list[BaseException] = []

    def live() -> None:
        try:
            second_life(old.bootstrap)
        except BaseException as error:
            failures.append(error)

    life = threading.Thread(target=live)
    old.pause()
    try:
        wait_until(
            lambda: all(node.partition(OFFSETS_TOPIC, index).get("leader") != old.id for node in others),
            "another coordinator",
        )
        first_life()
        life.start()
        life.join(QUEUED_S)
    finally:
        old.resume()
    life.join(PATIENCE_S)
    assert not life.is_alive()
    assert not failures, failures[0]


@pytest.mark.timeout(LIVES * 20 + 120)
def test_a_message_that_is_put_again_by_a_second_life_is_stored_once(cluster: Cluster, topic: str) -> None:
    create_topic_in_sync(cluster, topic)
    publisher = Publisher("p1", cluster.bootstrap, timeout_s=PATIENCE_S)
    expected = []
    for life in range(1, LIVES + 1):
        message = b"message %d" % life
        expected.append(message)
        first = publisher

        def put(message: bytes = message, life: int = life, first: Publisher = first) -> None:
            assert first.put(topic, message, seq=life).seq == life

        def put_again(bootstrap: str, message: bytes = message, life: int = life) -> None:
            with Publisher("p1", bootstrap, timeout_s=PATIENCE_S) as second:
                assert second.put(topic, message, seq=life).seq == life

        replaced(cluster, name_of("publisher", "p1"), put, put_again)
        first.close()
        publisher = Publisher("p1", cluster.bootstrap, timeout_s=PATIENCE_S)
    publisher.close()
    assert stored(cluster, topic) == expected


@pytest.mark.timeout(LIVES * 20 + 120)
def test_a_message_that_a_first_life_got_is_not_got_again(cluster: Cluster, topic: str) -> None:
    create_topic_in_sync(cluster, topic)
    with Publisher("p2", cluster.bootstrap, timeout_s=PATIENCE_S) as publisher:
        first = Subscriber("s1", broker=cluster.bootstrap, timeout_s=PATIENCE_S)
        first.subscribe(topic)
        got: list[bytes] = []
        for life in range(LIVES):
            publisher.put_many(topic, [b"%d first" % life, b"%d second" % life])

            def get(subscriber: Subscriber = first) -> None:
                got.append(received(subscriber))

            def get_next(bootstrap: str) -> None:
                with Subscriber("s1", broker=bootstrap, timeout_s=PATIENCE_S) as second:
                    got.append(received(second))

            replaced(cluster, name_of("subscriber", "s1"), get, get_next)
            first.close()
            first = Subscriber("s1", broker=cluster.bootstrap, timeout_s=PATIENCE_S)
        first.close()
    assert got == [b"%d %s" % (life, which) for life in range(LIVES) for which in (b"first", b"second")]


def received(subscriber: Subscriber) -> bytes:
    message = subscriber.get(timeout=PATIENCE_S)
    assert message is not None
    return message.value


def stored(cluster: Cluster, topic: str) -> list[bytes | None]:
    with RawClient(cluster.leader_of(topic).bootstrap) as client:
        batches = [batch for header, batch in read_all(client, topic) if not header.is_control]
        return [record.value for batch in batches for record in all_records(batch)]
