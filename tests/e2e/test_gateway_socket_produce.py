"""Messages written over WebSocket: an answer for each, and once each where the client numbers them."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway import GatewayProcess
from tests.support.sockets import ask, open_socket, receive, write
from tests.support.topics import create_topic, delete_topic, fill
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker import BrokerProcess
    from tests.support.cluster import Cluster


def stored(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of everything in a partition."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "check",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    try:
        while True:
            message = consumer.poll(20 * PATIENCE)
            assert message is not None, "no end of the partition was found"
            if message.error() is not None:
                return found
            found.append((message.key(), message.value()))
    finally:
        consumer.close()


def values(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    return [value for _, value in stored(bootstrap, topic, partition)]


def test_each_message_is_answered_with_its_place(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic, 2)
    with open_socket(shared_gateway, f"{topic}/produce") as socket:
        assert ask(socket, value="a", partition=1) == {"partition": 1, "offset": 0}
        assert ask(socket, value="b", key="k", partition=1, sequence=7) == {
            "sequence": 7, "partition": 1, "offset": 1,
        }  # fmt: skip
        assert ask(socket, value_base64="/wA=", key_base64="/g==", partition=1)["offset"] == 2
        assert ask(socket, value=None, key="gone", partition=1)["offset"] == 3
        socket.send(b"\x00raw\xff")
        where = receive(socket)
    expected = [(None, b"a"), (b"k", b"b"), (b"\xfe", b"\xff\x00"), (b"gone", None)]
    assert stored(shared_broker.bootstrap, topic, 1)[:4] == expected
    assert stored(shared_broker.bootstrap, topic, where["partition"])[where["offset"]] == (
        None,
        b"\x00raw\xff",
    )
    with open_socket(shared_gateway, f"{topic}/produce?partition=0") as socket:
        assert ask(socket, value="c")["partition"] == 0


def test_thousands_at_once_are_answered_in_order(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    count = 5_000
    with open_socket(shared_gateway, f"{topic}/produce") as socket:
        answers: list[dict[str, Any]] = []
        reading = threading.Thread(target=lambda: answers.extend(receive(socket) for _ in range(count)))
        reading.start()
        for number in range(count):
            write(socket, value=str(number), sequence=number)
        reading.join(60 * PATIENCE)
    assert [answer["sequence"] for answer in answers] == list(range(count))
    assert [answer["offset"] for answer in answers] == list(range(count))
    assert values(shared_broker.bootstrap, topic) == [b"%d" % number for number in range(count)]


def test_broken_frames_are_answered_and_harm_nobody(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    wrong = {
        "{": "not JSON", "[]": "object", "": "not JSON", "null": "object", "{}": "value is missing",
        '{"value":1}': "value must be a string", '{"value":"a","partition":-1}': "partition must be",
        '{"value":"a","sequence":true}': "sequence must", '{"value":"a","sequence":1e3}': "sequence must",
        '{"value":"a","extra":1}': "unknown field 'extra'", '{"value_base64":"?"}': "not base64",
        '{"value":"a","value_base64":"YQ=="}': "not both", '{"value":"\\ud800"}': "",
        '{"value":"a","partition":5}': "no partition 5",
    }  # fmt: skip
    with open_socket(shared_gateway, f"{topic}/produce") as socket:
        for text, message in wrong.items():
            socket.send(text)
            answer = receive(socket)
            assert answer["status"] == "failure", text
            assert message in answer["message"], text
        socket.send('{"value":1,"sequence":4}')
        assert receive(socket)["sequence"] == 4
        assert ask(socket, value="fine")["offset"] == 0
    assert values(shared_broker.bootstrap, topic) == [b"fine"]


def test_what_is_too_large_is_refused(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    for path in (f"{topic}/produce", f"{topic}/produce?client=c"):
        with open_socket(shared_gateway, path) as socket:
            if "client" in path:
                receive(socket)
            answer = ask(socket, value="x" * 2_000_000, sequence=0)
            assert answer["status"] == "failure"
            assert "large" in answer["message"].replace(topic, "")
            assert "offset" in ask(socket, value="y" * 900_000, sequence=0)
    with open_socket(shared_gateway, f"{topic}/produce") as socket, pytest.raises(ConnectionClosed):
        ask(socket, value="x" * 20_000_000)  # more than any frame may have
    with open_socket(shared_gateway, f"{topic}/produce") as socket:
        assert ask(socket, value="fine")["offset"] == 2


def test_what_is_wrong_is_said_at_once(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    wrong = {
        "nowhere/produce": 404, "nowhere/produce?client=c": 404, "__penstock_ids/produce": 400,
        f"{topic}/produce?partition=9": 404, f"{topic}/produce?partition=-1": 400,
        f"{topic}/produce?client=": 400, f"{topic}/produce?client=a%20b": 400,
    }  # fmt: skip
    for path, status in wrong.items():
        with pytest.raises(InvalidStatus) as refused:
            open_socket(shared_gateway, path)
        assert refused.value.response.status_code == status, path
        assert json.loads(refused.value.response.body or b"")["status"] == "failure"


def test_a_client_that_numbers_its_messages(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic, 3)
    with open_socket(shared_gateway, f"{topic}/produce?client=c1") as socket:
        hello = receive(socket)
        assert hello["expected"] is None
        partition = hello["partition"]
        assert ask(socket, value="0", sequence=0) == {"sequence": 0, "partition": partition, "offset": 0}
        assert ask(socket, value="1", key="k", sequence=1)["offset"] == 1
        again = ask(socket, value="1", key="k", sequence=1)
        assert again == {"sequence": 1, "partition": partition, "offset": 1, "duplicate": True}
        gap = ask(socket, value="5", sequence=5)
        assert (gap["status"], gap["expected"], gap["sequence"]) == ("failure", 2, 5)
        assert ask(socket, value="x")["message"].startswith("sequence is missing")
        assert "partition" in ask(socket, value="x", sequence=2, partition=(partition + 1) % 3)["message"]
        assert ask(socket, value="2", sequence=2, partition=partition)["offset"] == 2
    with open_socket(shared_gateway, f"{topic}/produce?client=c1") as socket:
        assert receive(socket) == {"client": "c1", "partition": partition, "expected": 3}
        assert ask(socket, value="0", sequence=0)["duplicate"] is True
        assert ask(socket, value="2", sequence=2)["offset"] == 2
        assert ask(socket, value="3", sequence=3)["offset"] == 3
    with open_socket(shared_gateway, f"{topic}/produce?client=c2&partition={partition}") as socket:
        assert receive(socket)["expected"] is None
        assert ask(socket, value="other", sequence=0)["offset"] == 4
    assert values(shared_broker.bootstrap, topic, partition) == [b"0", b"1", b"2", b"3", b"other"]


def test_a_repetition_from_long_ago_is_known_without_its_place(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    with open_socket(shared_gateway, f"{topic}/produce?client=c") as socket:
        receive(socket)
        assert ask(socket, value="0", sequence=0)["offset"] == 0
    fill(shared_broker.bootstrap, topic, [b"x"] * 3_000)
    with open_socket(shared_gateway, f"{topic}/produce?client=c") as socket:
        assert receive(socket)["expected"] == 1
        answer = ask(socket, value="0", sequence=0)
        assert (answer["duplicate"], answer["offset"]) == (True, None)
    assert len(values(shared_broker.bootstrap, topic)) == 3_001


def test_a_topic_that_is_created_again_begins_anew(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    for _ in range(2):
        create_topic(shared_broker.bootstrap, topic)
        with open_socket(shared_gateway, f"{topic}/produce?client=c") as socket:
            assert receive(socket)["expected"] is None
            assert ask(socket, value="0", sequence=0)["offset"] == 0
        delete_topic(shared_broker.bootstrap, topic)


class Resender:
    """A client as it should be: after each trouble it connects, to any gateway, and repeats what was not
    answered."""

    def __init__(self, gateways: list[GatewayProcess], path: str, count: int) -> None:
        self._gateways = gateways
        self._path = path
        self._count = count
        self.answered: dict[int, dict[str, Any]] = {}
        self.reconnections = 0
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while len(self.answered) < self._count:
                gateway = self._gateways[self.reconnections % len(self._gateways)]
                self.reconnections += 1
                try:
                    with open_socket(gateway, self._path, open_timeout=20 * PATIENCE) as socket:
                        self._send_rest(socket)
                except (OSError, ConnectionClosed, InvalidStatus, TimeoutError, EOFError):
                    continue
        except BaseException as error:
            self.failure = error

    def _send_rest(self, socket: Any) -> None:
        receive(socket)
        while len(self.answered) < self._count:
            first = len(self.answered)
            numbers = range(first, min(first + 50, self._count))
            for number in numbers:
                write(socket, value=str(number), sequence=number)
            for number in numbers:
                answer = receive(socket)
                assert answer.get("sequence") == number, answer
                assert "offset" in answer, answer
                self.answered[number] = answer


def test_nothing_is_stored_twice_while_gateways_are_killed(
    shared_broker: BrokerProcess, tmp_path: Path, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    count = 3_000
    gateways = [GatewayProcess(tmp_path, shared_broker.bootstrap) for _ in range(2)]
    for each in gateways:
        each.start()
    client = Resender(gateways, f"{topic}/produce?client=robust", count)
    try:
        client.thread.start()
        for round_number in range(4):
            # The client is in the middle of something each time.
            reached = len(client.answered) + 300
            while client.thread.is_alive() and len(client.answered) < reached:
                client.thread.join(0.005)
            victim = gateways[round_number % 2]
            victim.kill()
            victim.start()
        client.thread.join(120 * PATIENCE)
        assert not client.thread.is_alive()
        assert client.failure is None, client.failure
    finally:
        for each in gateways:
            each.kill()
    assert client.reconnections > 1
    assert values(shared_broker.bootstrap, topic) == [b"%d" % number for number in range(count)]
    known = [answer["offset"] for answer in client.answered.values()]
    assert all(offset in (None, number) for number, offset in enumerate(known))


def test_nothing_is_stored_twice_while_leaders_die(
    shared_cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    create_topic(shared_cluster.bootstrap, topic)
    shared_cluster.wait_in_sync(topic, (1, 2, 3))
    with GatewayProcess(tmp_path, shared_cluster.bootstrap) as gateway:
        client = Resender([gateway], f"{topic}/produce?client=robust&partition=0", 1_500)
        client.thread.start()
        for _ in range(2):
            reached = len(client.answered) + 200
            while client.thread.is_alive() and len(client.answered) < reached:
                client.thread.join(0.005)
            leader = shared_cluster.leader_of(topic)
            leader.kill()
            leader.start()
            shared_cluster.wait_in_sync(topic, (1, 2, 3))
        client.thread.join(120 * PATIENCE)
        assert not client.thread.is_alive()
        assert client.failure is None, client.failure
    assert values(shared_cluster.bootstrap, topic) == [b"%d" % number for number in range(1_500)]
