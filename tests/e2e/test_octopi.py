"""Octopi's failure conditions, on three brokers and dedicated controllers.

The moment of a crash decides: before the leader has written, before its followers have it, before or after it
has answered. To hit each moment without luck, brokers are advertised under the address of a `Link`, which can
hold back what the leader says to its followers, or what they say to it. A test itself talks to a broker's own
port, with exact batches of an idempotent producer, and sends again what was not acknowledged, as clients do.

Whatever happens, what was acknowledged is compared with what is read, and the replicas with each other.
"""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import NewTopic

from tests.support.cluster import Cluster, NodeProcess
from tests.support.ports import free_port
from tests.support.raw import (
    PRODUCE,
    ConnectionEndedError,
    RawClient,
    all_records,
    make_batch,
    produce_body,
    read_all,
)
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka import Message

PATIENT_S_MAX = 30.0
VALUE_BYTES = 20_000
"""Of the value that a crash is about: far more than any answer without records."""
ACKS_ALL, ACKS_LEADER = -1, 1
RETRIABLE = ("not_leader_or_follower", "not_enough_replicas", "leader_not_available", "request_timed_out")


class Link:
    """A TCP way to a port of this machine, which can be blocked in each direction, or closed."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._requests_flow, self._answers_flow = threading.Event(), threading.Event()
        self._holds_requests_from = 0
        self._sockets: set[socket.socket] = set()
        self._served: list[threading.Event] = []
        """For each connection: cleared once it has brought an answer with records that was to be the last."""
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self.open()

    def open(self) -> None:
        self._holds_requests_from = 0
        for each in self._served:
            each.set()
        self._requests_flow.set()
        self._answers_flow.set()
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Nobody can connect any more; connections stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
            listener.close()

    def close(self) -> None:
        """Connections break, what is held back is lost, and nobody can connect any more."""
        self.refuse()
        self._break_connections()
        self._requests_flow.set()
        self._answers_flow.set()

    def hold_answers(self) -> None:
        self._answers_flow.clear()

    def hold_requests_after_records(self) -> None:
        """Let one more answer with records through on each connection, and from then on no request."""
        self._holds_requests_from = VALUE_BYTES // 4

    def block(self) -> None:
        """A partition of the network: whoever sends or connects hears nothing."""
        self._requests_flow.clear()
        self._answers_flow.clear()

    def unblock(self) -> None:
        """What was held back is lost: connections must begin anew."""
        self._break_connections()
        self.open()

    def _break_connections(self) -> None:
        with self._lock:
            broken, self._sockets = self._sockets, set()
        for each in broken:
            with suppress(OSError):  # the other side may have been faster
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            unserved = threading.Event()
            unserved.set()
            with self._lock:
                self._sockets |= {client, server}
                self._served.append(unserved)
            for source, sink, flow in (
                (client, server, self._requests_flow),
                (server, client, self._answers_flow),
            ):
                arguments = (source, sink, flow, unserved)
                threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, flow: threading.Event, unserved: threading.Event
    ) -> None:
        try:
            while data := source.recv(256 * 1024):
                if flow is self._requests_flow:
                    unserved.wait()
                elif 0 < self._holds_requests_from <= len(data):
                    unserved.clear()
                flow.wait()
                if sink not in self._sockets:
                    return  # broken while this was held back
                sink.sendall(data)
        except OSError:
            return  # one side has gone, and now the other
        finally:
            for each in (source, sink):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


@dataclass
class Octopi:
    cluster: Cluster
    fronts: dict[int, Link]
    """By which other nodes reach each broker."""
    registers: dict[int, list[Link]]
    """By which each broker reaches the controllers."""

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

    def leader_after(self, old: NodeProcess, topic: str) -> NodeProcess:
        """Who leads when `old` does not any more, as each other broker says."""
        others = [broker for broker in self.brokers if broker is not old and broker.running]

        def agreed() -> NodeProcess | None:
            leaders = {leader_according_to(broker, topic) for broker in others}
            (leader,) = leaders if len(leaders) == 1 else (None,)
            return self.cluster.brokers[leader] if leader not in (None, old.id) else None

        found = wait_until(agreed, f"another leader of {topic} than {old.id}", timeout_s=PATIENT_S_MAX)
        assert found is not None
        return found

    def check_replicas(self, topic: str) -> None:
        """All are back in sync and hold the same bytes."""
        self.cluster.wait_healed([topic])
        copies = {broker.log_bytes(topic) for broker in self.brokers}
        assert len(copies) == 1, f"the replicas of {topic} differ: {sorted(map(len, copies))}"


def leader_according_to(node: NodeProcess, topic: str) -> int | None:
    for each in node.status().get("topics", []):
        if each["name"] == topic:
            return each["partitions"][0]["leader"]  # type: ignore[no-any-return]
    return None


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Octopi]:
    cluster = Cluster(tmp_path_factory.mktemp("octopi"), brokers=3, controllers=3)
    fronts = {broker.id: Link(broker.port) for broker in cluster.brokers.values()}
    registers = {}
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
    with cluster:
        yield Octopi(cluster, fronts, registers)
    for link in (*fronts.values(), *(link for links in registers.values() for link in links)):
        link.close()


@pytest.fixture
def octopi(started: Octopi) -> Iterator[Octopi]:
    started.cluster.wait_healed([])
    yield started
    for node in started.cluster.nodes.values():
        if node.running:
            node.resume()
    for link in (*started.fronts.values(), *(link for links in started.registers.values() for link in links)):
        link.open()
    started.cluster.start_again(*started.cluster.nodes.values())
    started.cluster.wait_healed([])


# An idempotent producer whose every batch the test knows


class ExactProducer:
    def __init__(self, octopi: Octopi, topic: str) -> None:
        self._octopi = octopi
        self.topic = topic
        self.acknowledged: dict[int, int] = {}
        """The offset of each number."""
        with RawClient(octopi.cluster.leader_of(topic).bootstrap) as client:
            self.producer_id, self.producer_epoch = client.init_producer_id()

    def batch(self, number: int) -> bytes:
        """One record, always the same for a number."""
        return make_batch(
            [value_of(number)],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=number,
        )

    def write(self, number: int, leader: NodeProcess) -> int:
        """The offset at which it is acknowledged; sent again for as long as that may help."""

        def attempt() -> Any:
            with RawClient(leader.bootstrap) as client:
                answer = client.produce(self.topic, self.batch(number))
            assert answer.error_code.name in ("none", *RETRIABLE), answer
            return answer if answer.error_code.name == "none" else None

        answer = wait_until(attempt, f"{number} is acknowledged", timeout_s=PATIENT_S_MAX)
        self.acknowledged[number] = answer.base_offset
        return int(answer.base_offset)

    def check(self, numbers: Iterable[int]) -> None:
        """What the topic holds is this, in this order, and where it was promised."""
        with RawClient(self._octopi.cluster.leader_of(self.topic).bootstrap) as client:
            wait_until(
                lambda: client.list_offset(self.topic, -1).error_code.name == "none",
                "the leader knows its end",
            )
            records = [record for _, batch in read_all(client, self.topic) for record in all_records(batch)]
        assert [record.value for record in records] == [value_of(number) for number in numbers]
        found = {number: record.offset for number, record in zip(numbers, records, strict=True)}
        assert self.acknowledged.items() <= found.items()


def value_of(number: int) -> bytes:
    return b"%08d" % number * (VALUE_BYTES // 8)


def create_topic(octopi: Octopi, topic: str, **config: str) -> NodeProcess:
    """Three replicas; returns the leader once all are in sync."""
    client = admin(octopi.cluster.bootstrap)
    named = {name.replace("_", "."): value for name, value in config.items()}

    def is_created() -> bool:
        try:
            client.create_topics([NewTopic(topic, 1, 3, config=named)])[topic].result(PATIENT_S_MAX)
        except KafkaException as error:
            # Brokers that the test before left behind as fenced are on their way back.
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    wait_until(is_created, f"three brokers for {topic}")
    octopi.cluster.wait_healed([topic])
    return octopi.cluster.leader_of(topic)


def wait_stored(node: NodeProcess, topic: str, value: bytes) -> None:
    wait_until(lambda: value in node.log_bytes(topic), f"broker {node.id} has it in its log")


def duplicates(node: NodeProcess) -> int:
    return node.metric("penstock_batches_duplicate_total")


# The leader crashes


def test_failure_condition_1_the_leader_fails_before_writing_to_its_log(octopi: Octopi, topic: str) -> None:
    old = create_topic(octopi, topic)
    producer = ExactProducer(octopi, topic)
    producer.write(0, old)
    with RawClient(old.bootstrap) as client:
        old.pause()
        client.send_produce(topic, producer.batch(1))
        octopi.crash(old)
        with pytest.raises((ConnectionEndedError, ConnectionResetError)):
            client.receive_produced()
    new = octopi.leader_after(old, topic)
    before = duplicates(new)
    assert producer.write(1, new) == 1
    assert producer.write(2, new) == 2
    assert duplicates(new) == before
    octopi.revive(old)
    octopi.check_replicas(topic)
    producer.check([0, 1, 2])


def test_failure_condition_2_the_leader_fails_after_writing_and_no_follower_has_it(
    octopi: Octopi, topic: str
) -> None:
    """The retry is new to the next leader; the last one's own copy goes when it returns as a follower."""
    old = create_topic(octopi, topic)
    producer = ExactProducer(octopi, topic)
    producer.write(0, old)
    octopi.fronts[old.id].hold_answers()
    with RawClient(old.bootstrap) as client:
        client.send_produce(topic, producer.batch(1))
        wait_stored(old, topic, value_of(1))
        octopi.crash(old)
        with pytest.raises((ConnectionEndedError, ConnectionResetError)):
            client.receive_produced()
    new = octopi.leader_after(old, topic)
    assert value_of(1) not in new.log_bytes(topic), "it was held back, and arrived nevertheless"
    before = duplicates(new)
    assert producer.write(1, new) == 1
    assert producer.write(2, new) == 2
    assert duplicates(new) == before
    octopi.revive(old)
    octopi.check_replicas(topic)
    producer.check([0, 1, 2])


def test_failure_condition_2_the_leader_fails_before_replying_and_the_followers_have_it(
    octopi: Octopi, topic: str
) -> None:
    """The new leader knows the sequence number from its copy of the log: one copy, at the same offset."""
    old = create_topic(octopi, topic)
    producer = ExactProducer(octopi, topic)
    producer.write(0, old)
    octopi.fronts[old.id].hold_requests_after_records()
    with RawClient(old.bootstrap) as client:
        client.send_produce(topic, producer.batch(1))
        for broker in octopi.brokers:
            wait_stored(broker, topic, value_of(1))
        octopi.crash(old)
        with pytest.raises((ConnectionEndedError, ConnectionResetError)):
            client.receive_produced()
    new = octopi.leader_after(old, topic)
    before = duplicates(new)
    assert producer.write(1, new) == 1
    assert duplicates(new) == before + 1
    assert producer.write(2, new) == 2
    octopi.revive(old)
    octopi.check_replicas(topic)
    producer.check([0, 1, 2])


def test_failure_condition_3_the_leader_fails_after_replying(octopi: Octopi, topic: str) -> None:
    """Nobody needs to send again. Who does, since the answer was lost on its way, gets the same answer."""
    old = create_topic(octopi, topic)
    producer = ExactProducer(octopi, topic)
    for number in range(10):
        assert producer.write(number, old) == number
    octopi.crash(old)
    new = octopi.leader_after(old, topic)
    assert producer.write(10, new) == 10
    before = duplicates(new)
    assert producer.write(9, new) == 9
    assert duplicates(new) == before + 1
    octopi.revive(old)
    octopi.check_replicas(topic)
    producer.check(range(11))


# The edge case: a leader that is cut off, and does not know


@pytest.mark.parametrize("acks", [ACKS_ALL, ACKS_LEADER])
def test_a_paused_leader_that_wakes_up_acknowledges_nothing(octopi: Octopi, topic: str, acks: int) -> None:
    old = create_topic(octopi, topic)
    producer = ExactProducer(octopi, topic)
    producer.write(0, old)
    with RawClient(old.bootstrap) as client:
        old.pause()
        client.send_produce(topic, make_batch([b"to the paused leader"]), acks=acks)
        new = octopi.leader_after(old, topic)
        producer.write(1, new)
        old.resume()
        answer = client.receive_produced()
        assert answer.error_code.name != "none", f"acknowledged at {answer.base_offset} by who leads no more"
        answer = client.produce(topic, make_batch([b"to the former leader"]), acks=acks)
        assert answer.error_code.name == "not_leader_or_follower"
    producer.write(2, new)
    octopi.check_replicas(topic)
    producer.check([0, 1, 2])


@pytest.mark.parametrize("acks", [ACKS_ALL, ACKS_LEADER])
def test_a_leader_cut_off_from_the_register_acknowledges_nothing(
    octopi: Octopi, topic: str, acks: int
) -> None:
    """Clients still reach it; controllers and followers do not, nor does it reach them. The register wins."""
    old = create_topic(octopi, topic)
    producer = ExactProducer(octopi, topic)
    producer.write(0, old)
    links = [octopi.fronts[old.id], *octopi.registers[old.id]]
    for link in links:
        link.block()
    new = octopi.leader_after(old, topic)
    producer.write(1, new)
    assert leader_according_to(old, topic) == old.id, "it is to believe that it still leads"
    with RawClient(old.bootstrap) as client:
        body = produce_body(topic, {0: make_batch([b"to the lonely leader"])}, acks=acks, timeout_ms=1_000)
        answer = client.request(PRODUCE, 9, body)
    error = answer.responses[0].partition_responses[0].error_code.name
    assert error != "none", "acknowledged by who leads no more"
    for link in links:
        link.unblock()
    producer.write(2, new)
    octopi.check_replicas(topic)
    producer.check([0, 1, 2])


# n-1 failures


def test_all_brokers_but_one_die_one_after_the_other(octopi: Octopi, topic: str) -> None:
    create_topic(octopi, topic, min_insync_replicas="1")
    acknowledged: dict[int, int] = {}
    failures: list[str] = []

    def delivered(number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"{number}: {error}")
        else:
            acknowledged[number] = message.offset()  # type: ignore[assignment]

    producer = Producer(
        {
            "bootstrap.servers": octopi.cluster.bootstrap,
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
        dead = octopi.cluster.leader_of(topic)
        octopi.crash(dead)
        write(100)
    assert producer.flush(PATIENT_S_MAX) == 0
    assert failures == []
    (survivor,) = [broker for broker in octopi.brokers if broker.running]
    with RawClient(survivor.bootstrap) as client:
        records = [record for _, batch in read_all(client, topic) for record in all_records(batch)]
    assert [record.value for record in records] == [b"%d" % number for number in range(sent)]
    assert acknowledged == {number: record.offset for number, record in enumerate(records)}
    for broker in octopi.brokers:
        if not broker.running:
            octopi.revive(broker)
    octopi.check_replicas(topic)


# Nodes that do not belong here


@pytest.fixture
def intruder(octopi: Octopi, topic: str, tmp_path: Path) -> Iterator[NodeProcess]:
    """A broker that should not get in; the cluster that it wants to join goes on as before."""
    leader = create_topic(octopi, topic)
    producer = ExactProducer(octopi, topic)
    producer.write(0, leader)
    newest = octopi.cluster.last_event()
    node = NodeProcess(tmp_path / "intruder", 9, ("broker",), free_port())
    try:
        yield node
        producer.write(1, leader)
        producer.check([0, 1])
        assert octopi.cluster.events(newest) == []
        assert {each["id"] for each in octopi.cluster.status()["brokers"]} == set(octopi.cluster.brokers)
    finally:
        node.kill()


def complaint(node: NodeProcess) -> str:
    """The line with which it ends."""
    assert node.wait() == 1, node.log
    (line,) = [line for line in node.log.splitlines() if line.startswith("penstock: ")]
    assert "Traceback" not in node.log
    return line


def test_a_wrong_cluster_id(octopi: Octopi, intruder: NodeProcess) -> None:
    intruder.configure(octopi.cluster.voters, ['cluster_id = "another"'])
    intruder.spawn()
    assert "belong to cluster another" in complaint(intruder)


def test_two_nodes_with_one_id(octopi: Octopi, intruder: NodeProcess) -> None:
    intruder.id = 1
    intruder.configure(octopi.cluster.voters)
    intruder.spawn()
    assert "another broker runs under the same id" in complaint(intruder)


def test_two_nodes_in_one_folder(octopi: Octopi, intruder: NodeProcess) -> None:
    owner = octopi.brokers[0]
    intruder.id, intruder.data = owner.id, owner.data
    intruder.configure(octopi.cluster.voters)
    intruder.spawn()
    assert f"in use by process {owner.pid}" in complaint(intruder)


def test_a_node_from_another_cluster(octopi: Octopi, intruder: NodeProcess) -> None:
    """It has metadata, topics and messages of its own."""
    intruder.roles = ("broker", "controller")
    intruder.configure([])
    intruder.start()
    with RawClient(intruder.bootstrap) as client:
        client.create_topic("elsewhere")
        assert client.produce("elsewhere", make_batch([b"kept"])).error_code.name == "none"
    assert intruder.terminate() == 0
    before = intruder.log_bytes("elsewhere")
    intruder.roles = ("broker",)
    intruder.configure(octopi.cluster.voters)
    intruder.spawn()
    assert "cluster" in complaint(intruder)
    assert intruder.log_bytes("elsewhere") == before != b""


def test_a_controller_from_another_cluster(octopi: Octopi, intruder: NodeProcess) -> None:
    """In the place of one that is down, with its id and at its address."""
    newest_controller = octopi.cluster.active_controller()
    absent = next(each for each in octopi.cluster.controllers.values() if each is not newest_controller)
    absent.kill()
    intruder.id, intruder.roles = absent.id, ("broker", "controller")
    intruder.configure([])
    intruder.start()
    assert intruder.terminate() == 0
    intruder.roles, intruder.port = ("controller",), absent.port
    intruder.configure(octopi.cluster.voters)
    intruder.spawn()
    assert "cluster" in complaint(intruder)
    assert octopi.cluster.active_controller() is newest_controller
    absent.start()


def halve(path: Path) -> bytes:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return whole


@pytest.mark.parametrize(
    ("node_id", "name"), [(3, "meta.json"), (1003, "meta.json"), (1003, "__cluster_metadata-0/quorum-state")]
)
def test_a_half_written_file(octopi: Octopi, topic: str, node_id: int, name: str) -> None:
    """The node says which, and starts again once the file is whole; the others do without it meanwhile."""
    leader = create_topic(octopi, topic)
    producer = ExactProducer(octopi, topic)
    producer.write(0, leader)
    node = octopi.cluster.nodes[node_id]
    node.kill()
    file = node.data / name
    whole = halve(file)
    node.spawn()
    assert f"{file.name}" in complaint(node)
    assert file.read_bytes() == whole[: len(whole) // 2], "what is left of it must stay"
    leader = octopi.leader_after(node, topic)
    producer.write(1, leader)
    file.write_bytes(whole)
    shutil.copy(file, f"{file}.tmp")
    halve(file.with_name(f"{file.name}.tmp"))  # what a crash while writing leaves, and nobody minds
    node.start()
    octopi.check_replicas(topic)
    producer.check([0, 1])
