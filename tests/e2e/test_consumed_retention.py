"""`retention=consumed` on a real cluster: readers miss nothing, whatever is killed, and disks become empty.

PENSTOCK_CONSUMED_KILLS is how many brokers are killed under the readers, one after the other.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from penstock import MessagesLostError, Publisher, Subscriber
from tests.support.cluster import Cluster, NodeProcess
from tests.support.topics import admin, create_topic, fill
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("PENSTOCK_CONSUMED_KILLS", "1"))
CHECK_MS = 200
NEAR_ZERO = 64 * 1024
VALUE = b"x" * 1_000
SETTLE_S_MAX = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("consumed")
    settings = [f"retention_check_ms = {CHECK_MS}", "offsets_topic_partitions = 4"]
    with Cluster(folder, brokers=3, settings=settings) as running:
        yield running


def client(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """What makes a group a subscription, and moves it."""
    with closing(client(bootstrap, group)) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def log_start(bootstrap: str, topic: str) -> int:
    with closing(client(bootstrap, "nobody")) as consumer:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        return int(low)


def wait_for_start(bootstrap: str, topic: str, offset: int, timeout_s: float = 20.0) -> None:
    wait_until(
        lambda: log_start(bootstrap, topic) == offset, f"{topic} to start at {offset}", timeout_s=timeout_s
    )


def wait_until_empty(cluster: Cluster, topic: str) -> None:
    wait_until(
        lambda: all(len(node.log_bytes(topic)) < NEAR_ZERO for node in cluster.brokers.values()),
        f"the disks of all replicas of {topic} to be nearly empty",
        timeout_s=30.0,
    )


def rounds_without_answer(node: NodeProcess) -> int:
    return node.log.count("nothing is removed for now")


def test_who_was_away_for_longer_than_time_retention_gets_everything(cluster: Cluster) -> None:
    topic, count = "away", 3_000
    create_topic(cluster.bootstrap, topic, retention="consumed", retention_ms="100", segment_bytes="100000")
    commit(cluster.bootstrap, "present", topic, 0)
    commit(cluster.bootstrap, "absent", topic, 0)
    fill(cluster.bootstrap, topic, (b"%d %s" % (number, VALUE) for number in range(count)))
    commit(cluster.bootstrap, "present", topic, count)
    commit(cluster.bootstrap, "absent", topic, 1_000)
    wait_for_start(cluster.bootstrap, topic, 1_000)  # so rounds are held, long after retention.ms
    with closing(client(cluster.bootstrap, "absent")) as consumer:
        consumer.assign([TopicPartition(topic, 0, 1_000)])
        for number in range(1_000, count):
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None, message.error()
            assert int(message.value().split()[0]) == message.offset() == number
    commit(cluster.bootstrap, "absent", topic, count)
    wait_for_start(cluster.bootstrap, topic, count)
    wait_until_empty(cluster, topic)


def test_a_ceiling_takes_and_tells(cluster: Cluster) -> None:
    topic = "ceiling"
    create_topic(
        cluster.bootstrap,
        topic,
        retention="consumed",
        retention_consumed_bytes="200000",
        segment_bytes="50000",
    )
    with Subscriber("slow", broker=cluster.bootstrap) as subscriber:
        subscriber.subscribe(topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 50, "log_level": 0})
    for _ in range(1_000):  # in batches: one alone would be one segment
        producer.produce(topic, VALUE)
    assert producer.flush(SETTLE_S_MAX) == 0
    leader = cluster.leader_of(topic)
    wait_until(lambda: len(leader.log_bytes(topic)) < 300_000, "all that is above the ceiling to go")
    warning = "ceiling-0: subscription penstock.subscriber.slow had not got offsets 0 to"
    wait_until(lambda: warning in leader.log, "a warning")
    start = log_start(cluster.bootstrap, topic)
    assert 0 < start < 1_000
    assert leader.metric("penstock_consumed_lost_total") == start
    with Subscriber("slow", broker=cluster.bootstrap) as subscriber:
        with pytest.raises(MessagesLostError) as caught:
            subscriber.get(timeout=20)
        assert (caught.value.topic, caught.value.first, caught.value.next) == (topic, 0, start)
        message = subscriber.get(timeout=20)
        assert message is not None
        assert message.offset == start


def test_while_a_coordinator_is_missing_nothing_goes(cluster: Cluster) -> None:
    topic, grace_ms = "unread", 600
    create_topic(cluster.bootstrap, "known")
    commit(cluster.bootstrap, "somebody", "known", 0)  # so that there is a topic for offsets
    create_topic(cluster.bootstrap, topic, retention="consumed", retention_consumed_grace_ms=str(grace_ms))
    fill(cluster.bootstrap, topic, [VALUE] * 100)
    leader = cluster.leader_of(topic)
    others = [node for node in cluster.brokers.values() if node is not leader]
    for node in others:
        node.kill()
    before = rounds_without_answer(leader)
    wait_until(
        lambda: rounds_without_answer(leader) > before + 2 * grace_ms // CHECK_MS,
        "rounds that remove nothing",
        timeout_s=30.0,
    )
    assert len(leader.log_bytes(topic)) > 100 * len(VALUE)
    assert f"{topic}-0: removed" not in leader.log
    cluster.start_again(*others)
    cluster.wait_healed([topic])
    wait_until(lambda: topic not in topics(cluster), "the topic is gone", timeout_s=20.0)


def topics(cluster: Cluster) -> set[str]:
    return set(admin(cluster.bootstrap).list_topics(timeout=20).topics)


def test_a_topic_that_nobody_subscribes_to_any_more_is_deleted(cluster: Cluster) -> None:
    topic, grace_ms = "left", 4_000
    create_topic(cluster.bootstrap, topic, retention="consumed", retention_consumed_grace_ms=str(grace_ms))
    with (
        Publisher("weather", cluster.bootstrap) as publisher,
        Subscriber("reader", cluster.bootstrap) as reader,
    ):
        reader.subscribe(topic)
        publisher.put(topic, "sun")
        assert reader.get(timeout=20) is not None
        reader.unsubscribe(topic)
        leader = cluster.leader_of(topic)

        def unread_since() -> int:
            return int(config_of(cluster, topic, "retention.consumed.unread.since.ms"))

        since_ms = wait_until(lambda: max(0, unread_since()), "nobody subscribes", timeout_s=20.0)
        # Whoever leads now goes on counting.
        leader.kill()
        wait_until(lambda: cluster.leader_of(topic) not in (None, leader), "another leader", timeout_s=20.0)
        cluster.start_again(leader)
        assert unread_since() in (since_ms, 0)
        wait_until(lambda: topic not in topics(cluster), "the topic is gone", timeout_s=30.0)
        # A topic of that name is another one, also for who had numbers in this one.
        assert publisher.put(topic, "fog").seq == 1
    with (
        Publisher("weather", cluster.bootstrap) as again,
        Subscriber("reader", cluster.bootstrap) as returned,
    ):
        returned.subscribe(topic)
        assert again.put(topic, "rain").seq == 2
        got = returned.get(timeout=20)
        assert got is not None
        assert got.value in ("rain", b"rain")


def test_who_subscribes_while_a_topic_goes_is_subscribed_to_the_next_one(cluster: Cluster) -> None:
    topic = "going"
    closed = AlterConfigOpType.SET
    with (
        Publisher("going", cluster.bootstrap) as publisher,
        Subscriber("late", cluster.bootstrap) as reader,
    ):
        for number in range(3):
            publisher.put(topic, "nobody reads this")
            entry = ConfigEntry("retention.consumed.unread.since.ms", "0", incremental_operation=closed)
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
            client = admin(cluster.bootstrap)
            (future,) = client.incremental_alter_configs([resource]).values()
            future.result(20)
            reader.subscribe(topic)
            wait_until(lambda: topic in topics(cluster), "all brokers know the topic that was made anew")
            publisher.put(topic, f"{number}")
            got = reader.get(timeout=20)
            assert got is not None
            assert got.value in (f"{number}", f"{number}".encode())
            reader.unsubscribe(topic)


def config_of(cluster: Cluster, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    client = admin(cluster.bootstrap)
    (future,) = client.describe_configs([resource]).values()
    return str(future.result(20)[name].value)


class Reader(threading.Thread):
    """Reads one after the other, commits now and then, and goes on where it committed."""

    def __init__(self, cluster: Cluster, topic: str, pause_s: float, end: threading.Event) -> None:
        super().__init__(name=f"reader with pauses of {pause_s} s")
        self._cluster, self._topic, self._pause_s, self._end = cluster, topic, pause_s, end
        self.position = 0
        self.count = 0
        """How many there are, once that is known."""
        self.complaints: list[str] = []

    def run(self) -> None:
        chance = random.Random(self.name)
        while not (self._end.is_set() and self.position >= self.count) and not self.complaints:
            try:
                with closing(client(self._cluster.bootstrap, self.name)) as consumer:
                    self._read(consumer, chance.randint(1, 2_000))
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() >= 0:
                    self.complaints.append(repr(error))
            time.sleep(self._pause_s)

    def _read(self, consumer: Consumer, wanted: int) -> None:
        (found,) = consumer.committed([TopicPartition(self._topic, 0)], timeout=10)
        assert found.offset >= 0
        expected = found.offset
        consumer.assign([TopicPartition(self._topic, 0, expected)])
        deadline = time.monotonic() + 2
        while expected < found.offset + wanted and time.monotonic() < deadline:
            for message in consumer.consume(100, timeout=0.2):
                if message.error() is not None:
                    self.complaints.append(f"at {expected}: {message.error()}")
                    return
                if message.offset() != expected or int(message.value().split()[0]) != expected:
                    self.complaints.append(f"{message.offset()} {message.value()[:20]!r}, not {expected}")
                    return
                expected += 1
        if expected > found.offset:
            consumer.commit(offsets=[TopicPartition(self._topic, 0, expected)], asynchronous=False)
            self.position = expected


@pytest.mark.timeout(300 + 30 * KILLS)
def test_readers_miss_nothing_while_brokers_are_killed(cluster: Cluster) -> None:
    topic, end, chance = "killed", threading.Event(), random.Random(1)
    create_topic(cluster.bootstrap, topic, retention="consumed", segment_bytes="200000")
    readers = [Reader(cluster, topic, pause_s, end) for pause_s in (0.0, 0.5, 1.5)]
    for reader in readers:
        commit(cluster.bootstrap, reader.name, topic, 0)
        reader.start()
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    )
    count = kills = 0
    try:
        while kills < KILLS:
            node = chance.choice([cluster.leader_of(topic), *cluster.brokers.values()])
            for _ in range(2_000):
                producer.produce(topic, b"%d %s" % (count, VALUE), partition=0)
                count += 1
            producer.poll(0)
            node.kill()
            producer.flush(1)
            cluster.start_again(node)
            cluster.wait_healed([topic])
            kills += 1
        assert producer.flush(SETTLE_S_MAX) == 0
    finally:
        for reader in readers:
            reader.count = count
        end.set()
        for reader in readers:
            reader.join(SETTLE_S_MAX * 3)
    assert [reader.complaints for reader in readers] == [[]] * len(readers)
    assert [reader.position for reader in readers] == [count] * len(readers)
    wait_for_start(cluster.bootstrap, topic, count)
    wait_until_empty(cluster, topic)
