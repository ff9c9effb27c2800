"""The mission's system tests: 20 broker processes, 3 controllers, 4 topics of 5 replicas on 5 brokers each.

A topic stands for a quadrant of the map, its 5 brokers for the cluster that keeps it. A client is a car: it
writes where it is a few times a second, and reads all that is written in its quadrant. Whatever a test kills,
it compares what the clients were promised with what the topics hold in the end: nothing lost, nothing twice,
each client's messages in their order, the same bytes on every replica.

All tests share one cluster, in any order: each finds it whole and leaves it whole.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.support.cluster import Cluster, NodeProcess
from tests.support.raw import RawClient, make_batch
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BROKERS, CONTROLLERS = 20, 3
REPLICAS, CLIENTS_PER_TOPIC = 5, 5
MINIMUM = 3
"""min.insync.replicas where nothing is configured: the majority of five."""
TOPICS = {
    f"quadrant-{place}": list(range(place * REPLICAS + 1, (place + 1) * REPLICAS + 1)) for place in range(4)
}
INTERVAL_S = 0.6
"""Each message is fetched by four followers and five clients: the rate is most of what these tests cost."""
PATIENCE = (
    "[cluster]",
    "broker_session_ms = 20_000",
    "replica_lag_ms_max = 20_000",
    "controller_election_ms_min = 4_000",
    "controller_election_ms_max = 6_000",
)
"""Twenty-three processes on a busy machine: one that waits for a core is not one that failed. Those that are
killed are noticed at once all the same, by their connections."""
PATIENT_S_MAX = 60.0
CLIENT: dict[str, Any] = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
WRITER: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "message.timeout.ms": 1000 * int(PATIENT_S_MAX),
}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("system")
    with Cluster(folder, brokers=BROKERS, controllers=CONTROLLERS, settings=PATIENCE) as cluster:
        create_topics(
            cluster,
            [NewTopic(name, 1, replica_assignment=[replicas]) for name, replicas in TOPICS.items()],
        )
        yield cluster


@pytest.fixture
def cluster(started: Cluster) -> Iterator[Cluster]:
    started.wait_healed(TOPICS)
    yield started
    started.start_again(*started.nodes.values())
    started.wait_healed(TOPICS)


# Clients


@dataclass
class Client:
    """One car: a producer, a consumer from here on, and the thread that drives both."""

    bootstrap: str
    topic: str
    name: str
    start_offset: int
    sent: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The offset of each number."""
    acknowledged_at: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    found: list[tuple[int, str]] = field(default_factory=list)
    """(offset, value) of all that was read."""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._end_offset: int | None = None
        self._thread = threading.Thread(target=self._drive, name=self.name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No further position; those on their way are waited for by `join`."""
        self._stop.set()

    def join(self) -> None:
        self._thread.join(2 * PATIENT_S_MAX)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _drive(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, **CLIENT, **WRITER})
        consumer = open_consumer(self.bootstrap, self.topic, self.start_offset)
        try:
            while not self._stop.is_set():
                self._write(producer)
                deadline = time.monotonic() + INTERVAL_S
                while (left := deadline - time.monotonic()) > 0:
                    producer.poll(min(left, 0.05))
                    self._read(consumer)
            if producer.flush(PATIENT_S_MAX):
                self.failures.append("some were never answered")
            self._read_to_the_end(consumer)
        finally:
            consumer.close()

    def _write(self, producer: Producer) -> None:
        number = self.sent
        self.sent += 1
        producer.produce(
            self.topic,
            f"{self.name}:{number}",
            on_delivery=lambda error, message: self._delivered(number, error, message),
        )

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(f"{number}: {error}")
            return
        offset = message.offset()
        assert offset is not None
        self.acknowledged[number] = offset
        self.acknowledged_at.append(time.monotonic())

    def _read(self, consumer: Consumer, timeout_s: float = 0.0) -> None:
        for message in consumer.consume(1_000, timeout_s):
            if message.error() is None:
                self.found.append((offset_of(message), value_of(message)))

    def _read_to_the_end(self, consumer: Consumer) -> None:
        """At least to the last of its own."""
        last = max(self.acknowledged.values(), default=-1)
        deadline = time.monotonic() + PATIENT_S_MAX
        while time.monotonic() < deadline and (not self.found or self.found[-1][0] < last):
            self._read(consumer, 0.1)


def open_consumer(bootstrap: str, topic: str, offset: int) -> Consumer:
    """Of one partition, in no group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "fetch.error.backoff.ms": 50,
            "fetch.queue.backoff.ms": 50,
            **CLIENT,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def value_of(message: Message) -> str:
    value = message.value()
    assert isinstance(value, bytes)
    return value.decode()


@contextmanager
def clients_of(
    cluster: Cluster, name: str, *, topics: Iterable[str] = TOPICS, per_topic: int = CLIENTS_PER_TOPIC
) -> Iterator[list[Client]]:
    """Clients that write and read until the end of the block, and then everything is compared."""
    starts = {topic: end_offset(cluster, topic) for topic in topics}
    clients = [
        Client(cluster.bootstrap, topic, f"{name}/{topic}/{place}", start)
        for topic, start in starts.items()
        for place in range(per_topic)
    ]
    for client in clients:
        client.start()
    try:
        wait_until(
            lambda: all(client.acknowledged and client.found for client in clients),
            "every client writes and reads",
            timeout_s=PATIENT_S_MAX,
        )
        yield clients
    finally:
        for client in clients:
            client.stop()
        for client in clients:
            client.join()
    for client in clients:
        assert client.failures == [], client.name
        assert len(client.acknowledged) == client.sent, client.name
    for topic, start in starts.items():
        check_topic(cluster, topic, start, [client for client in clients if client.topic == topic])


def go_on(clients: Sequence[Client], count: int = 2) -> None:
    """Each has that many more of its messages acknowledged, and reads them."""
    acknowledged = {client.name: len(client.acknowledged) + count for client in clients}
    found = {client.name: len(client.found) + count for client in clients}
    wait_until(
        lambda: all(
            len(client.acknowledged) >= acknowledged[client.name] and len(client.found) >= found[client.name]
            for client in clients
        ),
        f"{len(clients)} clients go on",
        timeout_s=PATIENT_S_MAX,
    )


def longest_silence_s(clients: Iterable[Client]) -> float:
    """The longest time in which none of them had anything acknowledged."""
    moments = sorted(moment for client in clients for moment in client.acknowledged_at)
    return max(after - before for before, after in pairwise(moments))


# What was promised and what is there


def check_topic(cluster: Cluster, topic: str, start: int, clients: Sequence[Client]) -> list[tuple[int, str]]:
    found = read_topic(cluster, topic, start)
    offsets, values = [offset for offset, _ in found], [value for _, value in found]
    assert offsets == list(range(start, start + len(found))), "a hole in the log"
    assert len(set(values)) == len(values), "a message appears twice"
    for client in clients:
        check_client(client.name, found, client.acknowledged)
        assert client.found == found[: len(client.found)], f"{client.name} has read something else"
    return found


def check_client(name: str, found: Iterable[tuple[int, str]], acknowledged: dict[int, int]) -> None:
    """What this client was told about its messages is so; what it was not told may be there, once."""
    stored = {
        int(number): offset
        for offset, value in found
        for writer, _, number in [value.rpartition(":")]
        if writer == name
    }
    assert list(stored) == list(range(len(stored))), f"{name}: order changed, or a message is missing"
    assert acknowledged.items() <= stored.items(), f"{name}: lost or moved"


def read_topic(cluster: Cluster, topic: str, start: int) -> list[tuple[int, str]]:
    """(offset, value) from `start` to the end."""
    end = end_offset(cluster, topic)
    consumer = open_consumer(cluster.bootstrap, topic, start)
    found: list[tuple[int, str]] = []
    deadline = time.monotonic() + PATIENT_S_MAX
    try:
        while start + len(found) < end:
            assert time.monotonic() < deadline, f"nothing more after {len(found)} of {end - start}"
            for message in consumer.consume(end - start - len(found), 0.5):
                assert message.error() is None, message.error()
                found.append((offset_of(message), value_of(message)))
    finally:
        consumer.close()
    return found


def end_offset(cluster: Cluster, topic: str) -> int:
    def ask() -> int | None:
        with RawClient(cluster.leader_of(topic).bootstrap) as client:
            answer = client.list_offset(topic, -1)
        return int(answer.offset) + 1 if answer.error_code.name == "none" else None

    found = wait_until(ask, f"the end of {topic}")
    assert found is not None
    return found - 1


def check_replicas(cluster: Cluster, topic: str) -> None:
    """All in sync and nothing on its way: every replica has the same bytes."""
    cluster.wait_healed([topic])
    copies = {cluster.brokers[replica].log_bytes(topic) for replica in TOPICS[topic]}
    assert len(copies) == 1, f"the replicas of {topic} differ: {sorted(map(len, copies))}"


# The cluster


def create_topics(cluster: Cluster, topics: list[NewTopic]) -> None:
    client = admin(cluster.bootstrap)
    for future in client.create_topics(topics, request_timeout=PATIENT_S_MAX).values():
        future.result(PATIENT_S_MAX)


def delete_topics(cluster: Cluster, topics: Iterable[str]) -> None:
    client = admin(cluster.bootstrap)
    for future in client.delete_topics(list(topics), request_timeout=PATIENT_S_MAX).values():
        future.result(PATIENT_S_MAX)


def leaders(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """(leader, leader epoch) of each topic."""
    found = {topic: cluster.partition(topic) for topic in TOPICS}
    return {topic: (each["leader"], each["leader_epoch"]) for topic, each in found.items()}


def write_once(node: NodeProcess, topic: str) -> Any:
    """The answer to one batch, sent to that broker with acks=all."""
    with RawClient(node.bootstrap) as client:
        return client.produce(topic, make_batch([b"once"]))


def disturbances(cluster: Cluster, after: int) -> list[tuple[str, str]]:
    """(kind, text) of what the cluster log says since, of nodes and of the four topics."""
    return [
        (event["kind"], event["text"])
        for event in cluster.events(after)
        if event.get("topic") is None or event["topic"] in TOPICS
    ]


# The tests


def test_basic_disallowed_operation(cluster: Cluster) -> None:
    """Four brokers, four topics of one replica each, and a minimum of three: nobody operates."""
    topics = {f"disallowed-{broker}": broker for broker in (1, 6, 11, 16)}
    config = {"min.insync.replicas": str(MINIMUM)}
    create_topics(
        cluster,
        [NewTopic(name, 1, replica_assignment=[[broker]], config=config) for name, broker in topics.items()],
    )
    errors: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "linger.ms": 0, **CLIENT}
    )
    for name in topics:
        producer.produce(name, b"never", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENT_S_MAX) == 0
    assert [error and error.code() for error in errors] == [KafkaError.NOT_ENOUGH_REPLICAS] * 4
    for name, broker in topics.items():
        answer = write_once(cluster.brokers[broker], name)
        assert answer.error_code.name == "not_enough_replicas"
        assert "too few in-sync replicas" in answer.error_message
        assert f"[{broker}], of which it needs {MINIMUM}" in answer.error_message
        assert end_offset(cluster, name) == 0
        assert cluster.brokers[broker].log_bytes(name) == b"", "refused, and written nevertheless"
    delete_topics(cluster, topics)


def test_normal_operation(cluster: Cluster) -> None:
    """Twenty clients, no failure: the cluster log stays silent, and each topic with its leader."""
    before, newest = leaders(cluster), cluster.last_event()
    with clients_of(cluster, "normal") as clients:
        go_on(clients, 5)
    assert disturbances(cluster, newest) == []
    assert leaders(cluster) == before
    for topic in TOPICS:
        check_replicas(cluster, topic)


def test_single_client_failure(cluster: Cluster, tmp_path: Path) -> None:
    """One client in each quadrant, and one of them is killed: the cluster does not even notice."""
    *others, deserted = TOPICS
    newest, start = cluster.last_event(), end_offset(cluster, deserted)
    promised = tmp_path / "promised"
    doomed = multiprocessing.get_context("spawn").Process(
        target=drive_until_killed, args=(cluster.bootstrap, deserted, promised), daemon=True
    )
    doomed.start()
    try:
        with clients_of(cluster, "survivor", topics=others, per_topic=1) as clients:
            wait_until(
                lambda: promised.exists() and promised.read_text().count("\n") > 10,
                "the client writes",
                timeout_s=PATIENT_S_MAX,
            )
            doomed.kill()
            doomed.join()
            go_on(clients)  # meanwhile what it had sent arrives
            silent_from = end_offset(cluster, deserted)
            go_on(clients)
            assert end_offset(cluster, deserted) == silent_from, "who writes there?"
    finally:
        doomed.kill()
    assert disturbances(cluster, newest) == []
    found = check_topic(cluster, deserted, start, [])
    whole_lines = promised.read_text().rpartition("\n")[0].splitlines()
    check_client(
        "doomed", found, {int(number): int(offset) for number, offset in map(str.split, whole_lines)}
    )
    with clients_of(cluster, "successor", topics=[deserted], per_topic=1) as clients:
        go_on(clients)


def drive_until_killed(bootstrap: str, topic: str, promised: Path) -> None:
    """A client in a process of its own: each number and offset that it was promised is a line of the file."""
    producer = Producer({"bootstrap.servers": bootstrap, **CLIENT, **WRITER})
    with promised.open("w", buffering=1) as lines:
        for number in range(1_000_000):
            producer.produce(
                topic,
                f"doomed:{number}",
                on_delivery=lambda error, message, number=number: (
                    None if error else lines.write(f"{number} {message.offset()}\n")
                ),
            )
            producer.poll(0.02)


def test_single_leader_failure(cluster: Cluster) -> None:
    """A leader is killed: its clients wait for a moment, a follower takes over, the others do not notice."""
    hit, *others = TOPICS
    before, newest = leaders(cluster), cluster.last_event()
    with clients_of(cluster, "leader") as clients:
        go_on(clients)
        old = cluster.leader_of(hit)
        old.kill()
        go_on(clients)
        outage_s = longest_silence_s([client for client in clients if client.topic == hit])
        print(f"the longest time without an acknowledgement: {outage_s:.2f} s")
        election, *more = [
            event
            for event in cluster.events(newest)
            if event["kind"] == "leader_elected" and event["topic"] in TOPICS
        ]
        assert (election["topic"], election["nodes"][1], more) == (hit, old.id, [])
        assert f"broker {old.id} was fenced" in election["cause"]
        cluster.start_again(old)
        cluster.wait_healed(TOPICS)
        go_on(clients)
    after = leaders(cluster)
    assert after[hit][0] == election["nodes"][0] != old.id
    assert after[hit][1] > before[hit][1]
    assert {topic: after[topic] for topic in others} == {topic: before[topic] for topic in others}
    check_replicas(cluster, hit)


def test_single_follower_failure(cluster: Cluster) -> None:
    """A follower is killed: it leaves the in-sync set, nobody is elected, and it catches up once back."""
    hit = list(TOPICS)[1]
    before, newest = leaders(cluster), cluster.last_event()
    with clients_of(cluster, "follower") as clients:
        go_on(clients)
        follower = next(cluster.brokers[each] for each in TOPICS[hit] if each != before[hit][0])
        follower.kill()
        cluster.wait_in_sync(hit, set(TOPICS[hit]) - {follower.id})
        go_on(clients, 3)
        cluster.start_again(follower)
        cluster.wait_healed(TOPICS)
        go_on(clients)
    assert leaders(cluster) == before
    seen = {kind for kind, _ in disturbances(cluster, newest)}
    assert "isr_shrunk" in seen
    assert "isr_expanded" in seen
    assert "leader_elected" not in seen
    check_replicas(cluster, hit)


def test_multiple_follower_failure_causing_disallowed_operation(cluster: Cluster) -> None:
    """Three of a topic's brokers are killed: a leader and one follower refuse to write on their own."""
    hit = list(TOPICS)[2]
    with clients_of(cluster, "followers") as clients:
        go_on(clients)
        affected = [client for client in clients if client.topic == hit]
        leader = cluster.leader_of(hit)
        followers = [cluster.brokers[each] for each in TOPICS[hit] if each != leader.id][: REPLICAS - 2]
        for follower in followers:
            follower.kill()
        answer = wait_until(lambda: maybe_refusal(leader, hit), "writes are refused", timeout_s=PATIENT_S_MAX)
        assert "too few in-sync replicas" in answer.error_message
        assert f"of which it needs {MINIMUM}" in answer.error_message
        promised = sum(len(client.acknowledged) for client in affected)
        go_on([client for client in clients if client.topic != hit], 3)
        assert sum(len(client.acknowledged) for client in affected) == promised, "acknowledged by two of five"
        assert write_once(leader, hit).error_code.name == "not_enough_replicas"
        cluster.start_again(followers[0])
        go_on(affected)
        cluster.start_again(*followers)
        cluster.wait_healed(TOPICS)
        go_on(clients)
    check_replicas(cluster, hit)


def maybe_refusal(leader: NodeProcess, topic: str) -> Any:
    """The refusal of an empty attempt; None while the leader takes writes.

    The batch is none of the protocol, so that a leader that would still take it stores nothing.
    """
    with RawClient(leader.bootstrap) as client:
        answer = client.produce(topic, b"\0" * 80)
    return answer if answer.error_code.name == "not_enough_replicas" else None


def test_server_failure(cluster: Cluster) -> None:
    """All controllers are killed: what is established goes on, a new topic is refused, and they return."""
    before = leaders(cluster)
    with clients_of(cluster, "server") as clients:
        go_on(clients)
        for controller in cluster.controllers.values():
            controller.kill()
        client = admin(cluster.bootstrap)
        creation = client.create_topics([NewTopic("orphan", 1, 1)], request_timeout=PATIENT_S_MAX)["orphan"]
        go_on(clients, 3)
        with pytest.raises(KafkaException) as refused:
            creation.result(PATIENT_S_MAX)
        error = refused.value.args[0]
        assert error.code() == KafkaError.REQUEST_TIMED_OUT
        assert "no controller can be reached" in error.str()
        go_on(clients)
        assert leaders(cluster) == before
        cluster.start_again(*cluster.controllers.values())
        cluster.active_controller()
        create_topics(cluster, [NewTopic("adopted", 1, 3)])
        go_on(clients)
    cluster.wait_healed([*TOPICS, "adopted"])
    assert "orphan" not in {topic["name"] for topic in cluster.status()["topics"]}
    assert leaders(cluster) == before, "nobody needed another leader"
    delete_topics(cluster, ["adopted"])
