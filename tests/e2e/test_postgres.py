"""`penstock up --storage postgresql://…`: a real broker on a real PostgreSQL that gets killed."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.broker import BrokerProcess
from tests.support.ports import free_ports
from tests.support.postgres import PostgresProcess
from tests.support.processes import command_of, descendants
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ_SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresProcess]:
    """One that tests of this module may kill, and start again."""
    server = PostgresProcess.create()
    yield server
    server.remove()


class Load:
    """Produces numbers in order to one partition, and knows which were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "retry.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        number = 0
        while not self._stop.is_set():
            if number - len(self.acknowledged) < 2_000:  # enough in flight to be interrupted
                self._producer.produce(self._topic, str(number).encode(), partition=0, on_delivery=self._done)
                number += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.01)

    def _done(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged.append(int(message.value() or b""))

    def wait_for_more(self, count: int) -> None:
        aim = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= aim, f"{aim} acknowledged", timeout_s=60)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60 * PATIENCE) == 0


def read_all(bootstrap: str, topic: str, count: int, **settings: object) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[int] = []
        deadline = time.monotonic() + READ_SECONDS_MAX * PATIENCE
        while len(found) < count and time.monotonic() < deadline:
            messages = consumer.consume(min(count - len(found), 10_000), 0.5)
            found += [int(each.value() or b"") for each in messages if each.error() is None]
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("flush", ["commit", "os"])
def test_the_database_is_killed_under_load(database: PostgresProcess, tmp_path: Path, flush: str) -> None:
    url = database.create_database(f"killed_{flush}")
    with BrokerProcess(tmp_path, "--storage", url, "--flush", flush) as broker:
        load = Load(broker.bootstrap, "load")
        for _ in range(3):
            load.wait_for_more(1_000)
            database.kill()
            database.start()
        load.wait_for_more(1_000)
        load.end()
        assert load.failures == []
        assert load.acknowledged == list(range(len(load.acknowledged)))
        assert read_all(broker.bootstrap, "load", len(load.acknowledged)) == load.acknowledged
        assert "is back after" in broker.log
        assert "read-only" not in broker.log
        broker.restart()
        assert read_all(broker.bootstrap, "load", len(load.acknowledged)) == load.acknowledged
        broker.restart(clean=False)
        assert read_all(broker.bootstrap, "load", len(load.acknowledged)) == load.acknowledged


def test_offsets_of_groups_survive_restarts(database: PostgresProcess, tmp_path: Path) -> None:
    url = database.create_database("groups")
    with BrokerProcess(tmp_path, "--storage", url) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(100):
            producer.produce("t", str(number).encode(), partition=0)
        assert producer.flush(30) == 0
        seen: list[int] = []
        for clean in (True, False, True, True):
            seen += consume_some(broker.bootstrap, 25)
            broker.restart(clean=clean)
        assert seen == list(range(100))


def consume_some(bootstrap: str, count: int) -> list[int]:
    """The next ones for the group, committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
        }
    )
    try:
        consumer.subscribe(["t"])
        found: list[Message] = []
        deadline = time.monotonic() + READ_SECONDS_MAX * PATIENCE
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message)
        consumer.commit(message=found[-1], asynchronous=False)
        return [int(message.value() or b"") for message in found]
    finally:
        consumer.close()


def test_a_cluster_shares_a_database(database: PostgresProcess, tmp_path: Path) -> None:
    url = database.create_database("shared")
    with BrokerProcess(tmp_path, "--storage", url, "--brokers", "3", port=free_ports(3)) as cluster:
        started = descendants(cluster.pid)
        assert len(started) >= 3
        assert not [pid for pid in started if url in command_of(pid)], "it may hold a password"
        load = Load(cluster.bootstrap, "load")
        load.wait_for_more(1_000)
        database.kill()
        database.start()
        load.wait_for_more(1_000)
        load.end()
        assert load.failures == []
        assert read_all(cluster.bootstrap, "load", len(load.acknowledged)) == load.acknowledged
    for path in tmp_path.rglob("node.toml"):
        assert path.stat().st_mode & 0o077 == 0, "its address may hold a password"


def failing_start(tmp_path: Path, url: str) -> str:
    command = BrokerProcess(tmp_path, "--storage", url).command()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    (line,) = ended.stderr.splitlines()
    return line


def test_without_a_database_it_does_not_start(tmp_path: Path) -> None:
    line = failing_start(tmp_path, f"postgresql://me:secret@/x?host={tmp_path}")
    assert line.startswith(f"penstock: cannot connect to PostgreSQL database x on {tmp_path}: ")
    assert "secret" not in line


def test_one_process_for_each_node(database: PostgresProcess, tmp_path: Path) -> None:
    url = database.create_database("once")
    with BrokerProcess(tmp_path, "--storage", url) as broker:
        other = tmp_path / "other"
        other.mkdir()
        line = failing_start(other, url)
        assert line.startswith("penstock: node 1 in PostgreSQL database once on ")
        assert f"is in use by penstock node 1 (process {broker.pid} on " in line


def test_the_password_is_nowhere_to_be_seen(database: PostgresProcess, tmp_path: Path) -> None:
    url = database.create_database("hidden").replace("postgres@", "postgres:top-secret@")
    with BrokerProcess(tmp_path, "--storage", url) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert admin.list_topics(timeout=10).brokers
        database.kill()
        producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 2_000})
        producer.produce("t", b"x")
        producer.flush(5)
        database.start()
        assert "top-secret" not in broker.log


def test_it_stops_while_the_database_is_away(database: PostgresProcess, tmp_path: Path) -> None:
    url = database.create_database("away")
    broker = BrokerProcess(tmp_path, "--storage", url).start()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 60_000, "log_level": 0})
    producer.produce("t", b"first", partition=0)
    assert producer.flush(30) == 0
    database.kill()
    try:
        producer.produce("t", b"second", partition=0)
        producer.poll(0.5)
        broker.terminate(timeout_s=20 * PATIENCE)
    finally:
        database.start()
    producer.purge()
    with BrokerProcess(tmp_path, "--storage", url) as again:
        consumer = Consumer({"bootstrap.servers": again.bootstrap, "group.id": "g"})
        low, high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=10)
        assert (low, high) in ((0, 1), (0, 2))
        consumer.close()


def test_a_long_absence_is_answered_with_an_error_to_be_retried(
    database: PostgresProcess, tmp_path: Path
) -> None:
    """Reads of what is not at hand, meanwhile, and all is well afterwards."""
    url = database.create_database("long")
    with BrokerProcess(tmp_path, "--storage", url) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"0", partition=0)
        assert producer.flush(30) == 0
        broker.restart()  # with an empty cache
        database.kill()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        with pytest.raises(KafkaException):
            consumer.offsets_for_times([TopicPartition("t", 0, 1)], timeout=5)
        consumer.close()
        assert admin.list_topics(timeout=10).topics["t"].error is None, "the broker itself is well"
        database.start()
        assert read_all(broker.bootstrap, "t", 1) == [0]
