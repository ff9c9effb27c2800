"""The commit of the exactly-once sink, without Spark: killed at each step, told nothing, taken over."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.spark import transactions
from penstock.spark.attempt import Limits
from penstock.spark.cluster import Cluster
from penstock.spark.errors import SinkFencedError, SourceError
from penstock.spark.options import Connection
from penstock.spark.sink_state import Batch
from penstock.spark.staging import Staged, Task, stage
from penstock.spark.transactions import TransactionalSink
from tests.support import topics
from tests.support.committed import read_committed
from tests.support.managed_process import SOURCE
from tests.support.ports import free_port

if TYPE_CHECKING:
    from tests.support.broker import BrokerProcess

PROGRAM = Path(__file__).with_name("publish_and_die.py")
STEPS = (
    "after:init_transactions",
    "after:produce",
    "after:send_offsets_to_transaction",
    "after:commit_transaction",
)
KILLS = int(os.environ.get("PENSTOCK_SINK_KILLS", "2"))
PUBLISH_S = 0.15
"""About what it takes when nothing is in the way."""
TIMEOUT_MS = 60_000
PROCESS_S_MAX = 120.0


def staged(folder: Path, *tasks: list[bytes]) -> list[Staged]:
    """As the tasks of a batch leave them, one for each list."""
    return [
        stage(
            iter([pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})]),
            "t",
            folder,
            Task("q", "r1", "0", f"{index}.arrow"),
        )
        for index, values in enumerate(tasks)
    ]


@pytest.fixture
def connection(shared_broker: BrokerProcess, topic: str) -> Connection:
    topics.create_topic(shared_broker.bootstrap, topic)
    return Connection(shared_broker.bootstrap, TIMEOUT_MS)


def test_killed_at_each_step(connection: Connection, topic: str, tmp_path: Path) -> None:
    """The batch is published again after each kill, as Spark does, and is there once."""
    files, batch = staged(tmp_path, [b"1", b"2"], [], [b"3"]), Batch("q", "r1", 0)
    work = tmp_path / "work"
    work.write_bytes(pickle.dumps((batch, files)))

    def killed(step: str) -> tuple[str, bool, list[bytes]]:
        target = f"{topic}.{STEPS.index(step)}"
        topics.create_topic(connection.bootstrap, target)
        done = subprocess.run(
            [sys.executable, PROGRAM, connection.bootstrap, target, step, work],
            env=os.environ | {"PYTHONPATH": f"{SOURCE}:{SOURCE.parent}"},
            timeout=PROCESS_S_MAX,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, f"{step}: it ended with {done.returncode}"
        sink = TransactionalSink(connection, target, target)
        wrote = sink.publish(Batch("q", "r2", 0), files)
        return step, wrote, read_committed(connection.bootstrap, target)

    with ThreadPoolExecutor(2) as pool:
        for step, wrote, found in pool.map(killed, STEPS):
            assert found == [b"1", b"2", b"3"], step
            assert wrote == (step != "after:commit_transaction"), step


@pytest.mark.parametrize("reached", [True, False])
def test_a_commit_of_unknown_outcome(
    connection: Connection, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reached: bool
) -> None:
    real = transactions.Attempt.commit
    attempts = []

    def commit(self: Any, state: Any) -> None:
        attempts.append(state)
        if len(attempts) > 1 or reached:
            real(self, state)
        if len(attempts) == 1:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "told nothing"))

    monkeypatch.setattr(transactions.Attempt, "commit", commit)
    sink = TransactionalSink(connection, topic, topic)
    assert sink.publish(Batch("q", "r", 0), staged(tmp_path, [b"1"])) is not reached
    assert len(attempts) == (1 if reached else 2)
    assert read_committed(connection.bootstrap, topic) == [b"1"]


def test_a_broker_that_dies_meanwhile(broker: BrokerProcess, tmp_path: Path) -> None:
    """At a random moment of each batch; the batches are written, in their order, once."""
    chance = random.Random(int(os.environ.get("PENSTOCK_SEED", "7")))
    topics.create_topic(broker.bootstrap, "t", 2)
    sink = TransactionalSink(Connection(broker.bootstrap, TIMEOUT_MS), "t", "t")
    columns = {"value": [b"", b""], "partition": pa.array([0, 1], pa.int32())}
    for number in range(KILLS):
        columns["value"] = [b"%d" % number] * 2
        rows = iter([pa.RecordBatch.from_pydict(columns)])
        file = stage(rows, "t", tmp_path, Task("q", "r", "0", f"{number}.arrow"))
        killer = threading.Timer(chance.uniform(0, PUBLISH_S), broker.restart, kwargs={"clean": False})
        killer.start()
        sink.publish(Batch("q", "r", number), [file])
        killer.join()
        assert not sink.publish(Batch("q", "r2", number), [file])
    expected = [b"%d" % number for number in range(KILLS)]
    assert read_committed(broker.bootstrap, "t", 2) == expected * 2


def test_of_two_runs_the_older_is_fenced(connection: Connection, topic: str, tmp_path: Path) -> None:
    older, newer = (TransactionalSink(connection, topic, topic) for _ in range(2))
    files = [staged(tmp_path / str(index), [b"%d" % index]) for index in range(4)]
    assert older.publish(Batch("q", "r1", 0), files[0])
    assert not newer.publish(Batch("q", "r2", 0), files[0])
    assert newer.publish(Batch("q", "r2", 1), files[1])
    for number in (1, 2):
        with pytest.raises(SinkFencedError, match="another query has taken it over"):
            older.publish(Batch("q", "r1", number), files[2])
    assert newer.publish(Batch("q", "r2", 2), files[3])
    assert read_committed(connection.bootstrap, topic) == [b"0", b"1", b"3"]


def test_fenced_in_the_middle(
    connection: Connection, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = transactions.Attempt.commit
    other = TransactionalSink(connection, topic, topic)

    def commit(self: Any, state: Any) -> None:
        monkeypatch.setattr(transactions.Attempt, "commit", real)
        assert other.publish(Batch("other", "r2", 0), staged(tmp_path / "b", [b"2"]))
        real(self, state)

    monkeypatch.setattr(transactions.Attempt, "commit", commit)
    with pytest.raises(SinkFencedError, match=f"sink '{topic}'"):
        TransactionalSink(connection, topic, topic).publish(
            Batch("q", "r1", 0), staged(tmp_path / "a", [b"1"])
        )
    assert read_committed(connection.bootstrap, topic) == [b"2"]


def test_who_is_fenced_off_already_stops_nobody(
    connection: Connection, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older run takes the transactional id in the middle of a newer one's transaction, and is told no."""
    older, newer = (TransactionalSink(connection, topic, topic) for _ in range(2))
    files = [staged(tmp_path / str(index), [b"%d" % index]) for index in range(3)]
    older.publish(Batch("q", "r1", 0), files[0])
    newer.publish(Batch("q", "r2", 1), files[1])
    real = transactions.Attempt.commit

    def commit(self: Any, state: Any) -> None:
        monkeypatch.setattr(transactions.Attempt, "commit", real)
        with pytest.raises(SinkFencedError):
            older.publish(Batch("q", "r1", 2), files[2])
        real(self, state)

    monkeypatch.setattr(transactions.Attempt, "commit", commit)
    assert newer.publish(Batch("q", "r2", 2), files[2])
    assert read_committed(connection.bootstrap, topic) == [b"0", b"1", b"2"]


def test_what_is_refused_leaves_no_open_transaction(
    connection: Connection, topic: str, tmp_path: Path
) -> None:
    sink = TransactionalSink(connection, topic, topic)
    columns = {"value": [b"1", b"2"], "partition": pa.array([0, 99], pa.int32())}
    rows = stage(iter([pa.RecordBatch.from_pydict(columns)]), topic, tmp_path, Task("q", "r", "0", "x.arrow"))
    with pytest.raises(SourceError, match="was not written: "):
        sink.publish(Batch("q", "r", 0), [rows])
    topics.fill(connection.bootstrap, topic, [b"behind"])
    assert read_committed(connection.bootstrap, topic) == [b"behind"]


def test_it_forgets_when_it_is_told_to(connection: Connection, topic: str, tmp_path: Path) -> None:
    sink = TransactionalSink(connection, topic, topic)
    sink.publish(Batch("q", "r", 0), staged(tmp_path, [b"1"]))
    cluster = Cluster(connection)
    (found,) = cluster.committed(f"penstock.sink.{topic}")
    assert (found.topic, found.partition) == (topic, 0)
    assert str(found.metadata).startswith('penstock.sink {"batch":0,')
    sink.forget()
    assert cluster.committed(f"penstock.sink.{topic}") == []


def test_nobody_there(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    sink = TransactionalSink(Connection(address, 500), "t", "s")
    with pytest.raises(SourceError, match=f"sink 's' at {address}: the batch is not written: "):
        sink.publish(Batch("q", "r", 0), staged(tmp_path, [b"1"]))


def test_large_batches_have_more_time() -> None:
    connection = Connection("h:1", 60_000)
    assert Limits.of(connection, 0) == Limits(60.0, 120_000)
    assert Limits.of(connection, 100 * 1024 * 1024) == Limits(160.0, 220_000)
    assert Limits.of(connection, 10**12).transaction_ms == 900_000
    assert Limits.of(Connection("h:1", 1_000), 0).transaction_ms == 60_000
    settings = {"transaction.timeout.ms": "3600000"}
    assert Limits.of(Connection("h:1", 1_000, settings), 0).transaction_ms == 3_600_000
