"""A port open to anybody: garbage, lies, giants, slow senders and readers who do not read.

After each attack the same process is still there, it has not grown, and somebody else's client, connected
all the time, was never disturbed.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import uuid
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from kio.index import load_request_schema

from penstock.broker.handlers import load_handlers
from tests.support.broker import BrokerProcess
from tests.support.raw import FETCH, PRODUCE, RawClient, encode_request, fetch_body, make_batch, produce_body
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024 * 1024
GROWTH_MAX = 48 * MIB


class Bystander:
    """A well-behaved client that produces and fetches all the while, over one connection."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self.rounds = 0
        self.trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_until(lambda: self.rounds > 10 or self.trouble, "the bystander to work")

    def _run(self) -> None:
        try:
            with RawClient(self._bootstrap) as client:
                client.create_topic(self._topic)
                while not self._stop.is_set():
                    answer = client.produce(self._topic, make_batch([b"v"] * 2))
                    assert answer.error_code.name == "none", answer
                    assert answer.base_offset == self.rounds * 2
                    fetched = client.fetch(self._topic, answer.base_offset)
                    assert fetched.high_watermark == answer.base_offset + 2
                    self.rounds += 1
        except BaseException as trouble:
            self.trouble = trouble

    def finish(self) -> None:
        before = self.rounds
        wait_until(lambda: self.rounds > before + 10 or self.trouble, "the bystander to go on")
        self._stop.set()
        self._thread.join()
        if self.trouble is not None:
            raise self.trouble


class Target:
    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.address = ("127.0.0.1", broker.port)
        self._process = psutil.Process(broker.pid)
        self.growth_max = GROWTH_MAX

    def memory(self) -> int:
        return int(self._process.memory_info().rss)

    def open_files(self) -> int:
        return int(self._process.num_fds())

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, 10)

    def send(self, data: bytes) -> bytes:
        """Send and hear what comes back until the broker closes or falls silent for a moment."""
        heard = b""
        with self.connect() as connection, contextlib.suppress(ConnectionError, TimeoutError):
            connection.sendall(data)
            connection.settimeout(0.05)
            while part := connection.recv(65536):
                heard += part
        return heard


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all attacks: it has to outlive them."""
    with BrokerProcess(tmp_path_factory.mktemp("attacked")) as broker:
        yield broker


@pytest.fixture
def target(attacked: BrokerProcess, topic: str) -> Iterator[Target]:
    """The broker under attack; the bystander and the broker's size are checked afterwards."""
    target = Target(attacked)
    bystander = Bystander(attacked.bootstrap, topic)
    said = len(attacked.log)
    memory, files = target.memory(), target.open_files()
    yield target
    bystander.finish()
    assert attacked.running
    wait_until(
        lambda: target.open_files() <= files + 8, "the attackers' connections to be closed", timeout_s=20
    )
    # Some of them may still be open, each with an answer on its way.
    wait_until(
        lambda: target.memory() - memory < target.growth_max,
        f"a broker that has grown by less than {target.growth_max / MIB:.0f} MiB",
        timeout_s=20,
    )
    assert "Traceback" not in attacked.log[said:], attacked.log[said:]


def test_random_bytes(target: Target) -> None:
    chance = random.Random(1)
    for _ in range(150):
        target.send(chance.randbytes(chance.randrange(1, 2000)))


@pytest.mark.parametrize("length", [-1, -(2**31), 100 * MIB + 1, 2**31 - 1])
def test_impossible_frame_lengths_close_the_connection(target: Target, length: int) -> None:
    with target.connect() as connection:
        connection.sendall(struct.pack(">i", length))
        assert connection.recv(1) == b""


def test_announced_giants_get_no_memory(target: Target) -> None:
    before = target.memory()
    connections = [target.connect() for _ in range(100)]
    for connection in connections:
        connection.sendall(struct.pack(">i", 90 * MIB) + b"x" * 100)
    with RawClient(target.broker.bootstrap) as client:
        client.produce("nowhere", None)  # a round trip: the broker has seen them all by now
    # 90 MiB times 100 were announced.
    assert target.memory() - before < 200 * MIB
    for connection in connections:
        connection.close()


def served_frames() -> list[bytes]:
    """A minimal well-formed request of every API in every served version."""
    return [
        encode_request(handler.key, version, 7, {})
        for handler in load_handlers()
        for version in handler.versions
        if load_request_schema(handler.key, version) is not None
    ]


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@pytest.mark.parametrize("epoch", [1, 2, 1_000, 2**31 - 1])
@pytest.mark.parametrize("is_pre_vote", [False, True])
def test_votes_and_epochs_of_strangers(target: Target, epoch: int, is_pre_vote: bool) -> None:
    """Who passes for a controller without being one: no vote, no other epoch, and nothing of it on disk."""
    kept = (target.broker.data / "__cluster_metadata-0" / "quorum-state").read_bytes()
    for candidate in (1, 999):
        vote = {
            "partition_index": 0,
            "replica_epoch": epoch,
            "replica_id": candidate,
            "replica_directory_id": uuid.uuid4(),
            "voter_directory_id": None,
            "last_offset_epoch": 2**31 - 1,
            "last_offset": 2**60,
            "pre_vote": is_pre_vote,
        }
        begin = {
            "partition_index": 0,
            "voter_directory_id": None,
            "leader_id": candidate,
            "leader_epoch": epoch,
        }
        end = {
            "partition_index": 0,
            "leader_id": candidate,
            "leader_epoch": epoch,
            "preferred_candidates": [],
        }
        with RawClient(target.broker.bootstrap) as client:
            for api_key, version, partition in ((52, 2, vote), (53, 1, begin), (54, 1, end)):
                topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
                who = {} if api_key == 54 else {"voter_id": 1}
                endpoints = {} if api_key == 52 else {"leader_endpoints": []}
                answer = client.request(
                    api_key, version, {"cluster_id": None, "topics": topics, **who, **endpoints}
                )
                if api_key == 52:
                    assert not answer.topics[0].partitions[0].vote_granted
    assert (target.broker.data / "__cluster_metadata-0" / "quorum-state").read_bytes() == kept


def test_truncated_requests(target: Target) -> None:
    """The frame is whole, but what is in it stops in the middle of a field."""
    chance = random.Random(2)
    for frame in served_frames():
        target.send(framed(frame[: chance.randrange(len(frame))]))


def test_damaged_requests(target: Target) -> None:
    """Valid requests of every API with bytes changed: lengths lie, arrays never end, names are not UTF-8."""
    chance = random.Random(3)
    frames = served_frames()
    batch = make_batch([b"v"] * 3)
    frames += [encode_request(PRODUCE, version, 7, produce_body("p", {0: batch})) for version in range(3, 10)]
    frames += [
        encode_request(FETCH, version, 7, fetch_body("p", {0: 0}, max_wait_ms=10)) for version in range(9, 13)
    ]
    for frame in frames:
        damaged = bytearray(frame)
        for _ in range(chance.randrange(1, 4)):
            # Not the key and version: another API would be asked, and that is the other tests' matter.
            damaged[chance.randrange(4, len(damaged))] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        target.send(framed(bytes(damaged)))


def test_lying_lengths_inside_batches(target: Target) -> None:
    chance = random.Random(4)
    with RawClient(target.broker.bootstrap) as client:
        client.create_topic("lies")
        refused = 0
        for _ in range(300):
            batch = bytearray(make_batch([b"v"] * 3))
            struct.pack_into(
                ">i", batch, chance.choice((8, 23, 57)), chance.choice((-1, 0, 1, 1 << 30, 2**31 - 1))
            )
            answer = client.produce("lies", bytes(batch))
            refused += answer.error_code.name != "none"
        assert refused == 300
        assert client.end_offset("lies") == 0


def test_slow_senders(target: Target) -> None:
    """Each sends a valid request a byte at a time; all of them get their answer."""
    frame = framed(encode_request(3, 1, 9, {"topics": []}))
    connections = [target.connect() for _ in range(50)]
    for position in range(len(frame)):
        for connection in connections:
            connection.sendall(frame[position : position + 1])
    for connection in connections:
        assert len(connection.recv(4)) == 4
        connection.close()


def test_half_open_connections_and_idle_crowds(target: Target) -> None:
    crowd = [target.connect() for _ in range(500)]
    for connection in crowd[:100]:
        connection.sendall(b"\x00\x00")  # half a length
    for connection in crowd[100:200]:
        connection.shutdown(socket.SHUT_WR)
    assert crowd[150].recv(1) == b""
    for connection in crowd:
        connection.close()


def test_readers_who_do_not_read(target: Target) -> None:
    """Each asks for far more than it takes; the broker stops working for it instead of buffering."""
    value = b"v" * 500_000
    with RawClient(target.broker.bootstrap) as client:
        client.create_topic("heavy")
        for _ in range(20):
            assert client.produce("heavy", make_batch([value])).error_code.name == "none"
    before = target.memory()
    readers = [RawClient(target.broker.bootstrap) for _ in range(10)]
    for reader in readers:
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(50):
            reader.send(FETCH, 12, fetch_body("heavy", {0: 0}, partition_max_bytes=10 * MIB))
    with RawClient(target.broker.bootstrap) as client:
        assert client.end_offset("heavy") == 20
    # 10 readers asked for 50 times 10 MB; one answer each may be under way.
    grown = target.memory() - before
    assert grown < 200 * MIB, f"grown by {grown / MIB:.0f} MiB"
    for reader in readers:
        reader.socket.close()
    # What was under way is freed; the allocator may keep it for the next ones.
    target.growth_max = GROWTH_MAX + len(readers) * 10 * MIB


def test_a_flood_of_pipelined_requests_is_answered_in_order(target: Target) -> None:
    count = 3000
    frames = b"".join(framed(encode_request(18, 0, number, {})) for number in range(count))
    with target.connect() as connection:
        sender = threading.Thread(target=connection.sendall, args=(frames,))
        sender.start()
        for number in range(count):
            assert receive(connection)[:4] == struct.pack(">i", number)
        sender.join()


def receive(connection: socket.socket) -> Any:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            assert part, "closed"
            data += part
        return data

    return exactly(struct.unpack(">i", exactly(4))[0])
