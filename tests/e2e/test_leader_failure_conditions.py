"""A leader fails at each moment of a write, or is cut off from the others and does not know.

The moment of a crash decides: before the leader has written, before its followers have it, before or after it
has answered. To hit each moment without luck, brokers are advertised under the address of a `Link`, which can
hold back what the leader says to its followers, or what they say to it. A test itself talks to a broker's own
port, with exact batches of an idempotent producer, and sends again what was not acknowledged, as clients do.

Whatever happens, what was acknowledged is compared with what is read, and the replicas with each other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Producer

from tests.support.cluster import Cluster, NodeProcess
from tests.support.exact_producer import (
    PATIENT_S_MAX,
    VALUE_BYTES,
    ExactProducer,
    create_topic_in_sync,
    value_of,
)
from tests.support.link import Link
from tests.support.raw import (
    PRODUCE,
    ConnectionEndedError,
    RawClient,
    all_records,
    make_batch,
    produce_body,
    read_all,
)
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message

ACKS_ALL, ACKS_LEADER = -1, 1


@dataclass
class LinkedCluster:
    cluster: Cluster
    fronts: dict[int, Link]
    """By which other nodes reach each broker."""
    registers: dict[int, list[Link]]
    """By which each broker reaches the controllers."""

    @property
    def links(self) -> list[Link]:
        return [*self.fronts.values(), *(link for links in self.registers.values() for link in links)]

    @property
    def brokers(self) -> list[NodeProcess]:
        return list(self.cluster.brokers.values())

    def crash(self, node: NodeProcess) -> None:
        """Killed, and whatever it had sent and nobody had received dies with it."""
        self.fronts[node.id].refuse()  # before, as whoever finds its connection broken tries another one
        node.kill()
        self.fronts[node.id].close()

    def revive(self, node: NodeProcess) -> None:
        self.fronts[node.id].open()
        self.cluster.start_again(node)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedCluster]:
    cluster = Cluster(tmp_path_factory.mktemp("linked"), brokers=3, controllers=3)
    fronts = {broker.id: Link(broker.port) for broker in cluster.brokers.values()}
    registers: dict[int, list[Link]] = {}
    for broker in cluster.brokers.values():
        links = {voter.id: Link(voter.port) for voter in cluster.voters}
        broker.configure(cluster.voters, [f'advertised = "127.0.0.1:{fronts[broker.id].port}"'])
        text = broker.file.read_text()
        for voter in cluster.voters:
            text = text.replace(
                f"{voter.id}@127.0.0.1:{voter.port}", f"{voter.id}@127.0.0.1:{links[voter.id].port}"
            )
        broker.file.write_text(text)
        registers[broker.id] = list(links.values())
    linked = LinkedCluster(cluster, fronts, registers)
    with cluster:
        yield linked
    for link in linked.links:
        link.close()


@pytest.fixture
def linked(started: LinkedCluster) -> Iterator[LinkedCluster]:
    started.cluster.wait_healed([])
    yield started
    for node in started.cluster.nodes.values():
        if node.running:
            node.resume()
    for link in started.links:
        link.open()
    started.cluster.start_again(*started.cluster.nodes.values())
    started.cluster.wait_healed([])


def wait_stored(node: NodeProcess, topic: str, value: bytes) -> None:
    wait_until(lambda: value in node.log_bytes(topic), f"broker {node.id} has it in its log")


def duplicates(node: NodeProcess) -> int:
    return node.metric("penstock_batches_duplicate_total")


# The leader crashes


def test_failure_condition_1_the_leader_fails_before_writing_to_its_log(
    linked: LinkedCluster, topic: str
) -> None:
    old = create_topic_in_sync(linked.cluster, topic)
    producer = ExactProducer(linked.cluster, topic)
    producer.write(0, old)
    with RawClient(old.bootstrap) as client:
        old.pause()
        client.send_produce(topic, producer.batch(1))
        linked.crash(old)
        with pytest.raises((ConnectionEndedError, ConnectionResetError)):
            client.receive_produced()
    new = linked.cluster.leader_after(old, topic)
    before = duplicates(new)
    assert producer.write(1, new) == 1
    assert producer.write(2, new) == 2
    assert duplicates(new) == before
    linked.revive(old)
    linked.cluster.check_replicas(topic)
    producer.check([0, 1, 2])


def test_failure_condition_2_the_leader_fails_after_writing_and_no_follower_has_it(
    linked: LinkedCluster, topic: str
) -> None:
    """The retry is new to the next leader; the last one's own copy goes when it returns as a follower."""
    old = create_topic_in_sync(linked.cluster, topic)
    producer = ExactProducer(linked.cluster, topic)
    producer.write(0, old)
    linked.fronts[old.id].hold_answers()
    with RawClient(old.bootstrap) as client:
        client.send_produce(topic, producer.batch(1))
        wait_stored(old, topic, value_of(1))
        linked.crash(old)
        with pytest.raises((ConnectionEndedError, ConnectionResetError)):
            client.receive_produced()
    new = linked.cluster.leader_after(old, topic)
    assert value_of(1) not in new.log_bytes(topic), "it was held back, and arrived nevertheless"
    before = duplicates(new)
    assert producer.write(1, new) == 1
    assert producer.write(2, new) == 2
    assert duplicates(new) == before
    linked.revive(old)
    linked.cluster.check_replicas(topic)
    producer.check([0, 1, 2])


def test_failure_condition_2_the_leader_fails_before_replying_and_the_followers_have_it(
    linked: LinkedCluster, topic: str
) -> None:
    """The new leader knows the sequence number from its copy of the log: one copy, at the same offset."""
    old = create_topic_in_sync(linked.cluster, topic)
    producer = ExactProducer(linked.cluster, topic)
    producer.write(0, old)
    linked.fronts[old.id].hold_requests_after_answer(bytes_min=VALUE_BYTES // 4)
    with RawClient(old.bootstrap) as client:
        client.send_produce(topic, producer.batch(1))
        for broker in linked.brokers:
            wait_stored(broker, topic, value_of(1))
        linked.crash(old)
        with pytest.raises((ConnectionEndedError, ConnectionResetError)):
            client.receive_produced()
    new = linked.cluster.leader_after(old, topic)
    before = duplicates(new)
    assert producer.write(1, new) == 1
    assert duplicates(new) == before + 1
    assert producer.write(2, new) == 2
    linked.revive(old)
    linked.cluster.check_replicas(topic)
    producer.check([0, 1, 2])


def test_failure_condition_3_the_leader_fails_after_replying(linked: LinkedCluster, topic: str) -> None:
    """Nobody needs to send again. Who does, since the answer was lost on its way, gets the same answer."""
    old = create_topic_in_sync(linked.cluster, topic)
    producer = ExactProducer(linked.cluster, topic)
    for number in range(10):
        assert producer.write(number, old) == number
    linked.crash(old)
    new = linked.cluster.leader_after(old, topic)
    assert producer.write(10, new) == 10
    before = duplicates(new)
    assert producer.write(9, new) == 9
    assert duplicates(new) == before + 1
    linked.revive(old)
    linked.cluster.check_replicas(topic)
    producer.check(range(11))


# The edge case: a leader that is cut off, and does not know


@pytest.mark.parametrize("acks", [ACKS_ALL, ACKS_LEADER])
def test_a_paused_leader_that_wakes_up_acknowledges_nothing(
    linked: LinkedCluster, topic: str, acks: int
) -> None:
    old = create_topic_in_sync(linked.cluster, topic)
    producer = ExactProducer(linked.cluster, topic)
    producer.write(0, old)
    with RawClient(old.bootstrap) as client:
        old.pause()
        client.send_produce(topic, make_batch([b"to the paused leader"]), acks=acks)
        new = linked.cluster.leader_after(old, topic)
        producer.write(1, new)
        old.resume()
        answer = client.receive_produced()
        assert answer.error_code.name != "none", f"acknowledged at {answer.base_offset} by who leads no more"
        answer = client.produce(topic, make_batch([b"to the former leader"]), acks=acks)
        assert answer.error_code.name == "not_leader_or_follower"
    producer.write(2, new)
    linked.cluster.check_replicas(topic)
    producer.check([0, 1, 2])


@pytest.mark.parametrize("acks", [ACKS_ALL, ACKS_LEADER])
def test_a_leader_cut_off_from_the_register_acknowledges_nothing(
    linked: LinkedCluster, topic: str, acks: int
) -> None:
    """Clients still reach it; controllers and followers do not, nor does it reach them. The register wins."""
    old = create_topic_in_sync(linked.cluster, topic)
    producer = ExactProducer(linked.cluster, topic)
    producer.write(0, old)
    links = [linked.fronts[old.id], *linked.registers[old.id]]
    for link in links:
        link.block()
    new = linked.cluster.leader_after(old, topic)
    producer.write(1, new)
    assert old.leader_of(topic) == old.id, "it is to believe that it still leads"
    with RawClient(old.bootstrap) as client:
        body = produce_body(topic, {0: make_batch([b"to the lonely leader"])}, acks=acks, timeout_ms=1_000)
        answer = client.request(PRODUCE, 9, body)
    error = answer.responses[0].partition_responses[0].error_code.name
    assert error != "none", "acknowledged by who leads no more"
    for link in links:
        link.unblock()
    producer.write(2, new)
    linked.cluster.check_replicas(topic)
    producer.check([0, 1, 2])


# n-1 failures


def test_all_brokers_but_one_die_one_after_the_other(linked: LinkedCluster, topic: str) -> None:
    create_topic_in_sync(linked.cluster, topic, min_insync_replicas="1")
    acknowledged: dict[int, int] = {}
    failures: list[str] = []

    def delivered(number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"{number}: {error}")
        else:
            acknowledged[number] = message.offset()  # type: ignore[assignment]

    producer = Producer(
        {
            "bootstrap.servers": linked.cluster.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "message.timeout.ms": int(1000 * PATIENT_S_MAX),
            "log_level": 0,
        }
    )
    sent = 0

    def write(count: int) -> None:
        """So many more acknowledged, with some always on their way."""
        nonlocal sent
        wanted = len(acknowledged) + count
        deadline = time.monotonic() + PATIENT_S_MAX
        while len(acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{len(acknowledged)} of {wanted}"
            if sent - len(acknowledged) < 50:
                producer.produce(
                    topic, b"%d" % sent, on_delivery=lambda *result, number=sent: delivered(number, *result)
                )
                sent += 1
            producer.poll(0.001)

    write(100)
    for _ in range(2):
        dead = linked.cluster.leader_of(topic)
        linked.crash(dead)
        write(100)
    assert producer.flush(PATIENT_S_MAX) == 0
    assert failures == []
    (survivor,) = [broker for broker in linked.brokers if broker.running]
    with RawClient(survivor.bootstrap) as client:
        records = [record for _, batch in read_all(client, topic) for record in all_records(batch)]
    assert [record.value for record in records] == [b"%d" % number for number in range(sent)]
    assert acknowledged == {number: record.offset for number, record in enumerate(records)}
    for broker in linked.brokers:
        if not broker.running:
            linked.revive(broker)
    linked.cluster.check_replicas(topic)
