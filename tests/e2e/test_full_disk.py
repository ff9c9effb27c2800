"""A disk that fills up: writers hear why, readers go on, nothing acknowledged is lost."""

from __future__ import annotations

import os
import resource
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ElectionType, Producer
from confluent_kafka.admin import NewTopic

from tests.support.broker import BrokerProcess
from tests.support.cluster import Cluster
from tests.support.raw import RawClient, all_records, make_batch
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DISK_BYTES = 8 * 1024 * 1024
VALUE = b"v" * 100_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for DISK_BYTES; without the right to mount one, files may not grow beyond that."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() == 0:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
        subprocess.run(mount, check=True)
        yield folder
        subprocess.run(["umount", str(folder)], check=True)
    else:
        with file_size_limit(DISK_BYTES):
            yield folder


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """For this process, and for those that it starts meanwhile."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def fill(client: RawClient, topic: str) -> tuple[int, str]:
    """(batches acknowledged, the error message that ended it)."""
    for count in range(DISK_BYTES // len(VALUE) + 10):
        answer = client.produce(topic, make_batch([VALUE]))
        if answer.error_code.name != "none":
            assert answer.error_code.name == "kafka_storage_error"
            return count, answer.error_message or ""
        assert answer.base_offset == count
    raise AssertionError("the disk does not fill up")


@pytest.mark.parametrize("flush", ["commit", "os"])
def test_a_disk_that_fills_up(small_disk: Path, flush: str) -> None:
    broker = BrokerProcess(small_disk.parent, "--flush", flush)
    broker.data = small_disk / "data"
    with broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("spare")
            assert client.produce("spare", make_batch([b"s" * 1_000_000])).error_code.name == "none"
            client.create_topic("full")
            count, message = fill(client, "full")
            assert "full-0" in message
            assert "read-only" in message
            assert client.produce("full", make_batch([b"one more"])).error_code.name == "kafka_storage_error"
            # Readers go on.
            assert client.end_offset("full") == count
            fetched = client.fetch("full", count - 1, partition_max_bytes=1_000_000)
            assert [record.value for record in all_records(fetched.records)] == [VALUE]
        # As a crash finds it: no clean stop is possible here.
        broker.kill()
        for log in (broker.data / "spare-0").glob("*.log"):
            log.write_bytes(b"")  # somebody makes room
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert client.end_offset("full") == count
            assert client.produce("full", make_batch([b"one more"])).base_offset == count
            values = [all_records(client.fetch("full", offset).records)[0].value for offset in range(count)]
            assert values == [VALUE] * count


def test_one_log_that_cannot_be_written_moves_away_and_its_broker_goes_on(tmp_path: Path) -> None:
    """A file may not grow on one of three brokers: others lead what is in it, and that one all else."""
    with Cluster(tmp_path, brokers=3) as cluster:
        hurt, client = cluster.brokers[1], admin(cluster.bootstrap)
        topics = [NewTopic(name, 1, replica_assignment=[[1, 2, 3]]) for name in ("grows", "stays")]
        for future in client.create_topics(topics).values():
            future.result(30)
        hurt.kill()
        with file_size_limit(1_000_000):
            hurt.start()
        cluster.wait_healed(["grows", "stays"])
        client.elect_leaders(ElectionType.PREFERRED, None).result(30)
        wait_until(lambda: cluster.leader_of("grows") is cluster.leader_of("stays") is hurt, "it leads both")
        acknowledged = 0
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
        for number in range(20):
            producer.produce("grows", b"%05d" % number + VALUE)
            assert producer.flush(60) == 0
            acknowledged += 1
        assert cluster.leader_of("grows") is not hurt
        assert cluster.leader_of("stays") is hurt
        with RawClient(hurt.bootstrap) as raw:
            assert raw.produce("stays", make_batch([b"still here"])).error_code.name == "none"
        kinds = {event["kind"]: event for event in cluster.events() if event.get("topic") == "grows"}
        assert kinds["replica_offline"]["cause"] == "the replica on broker 1 is out of service"
        last_event = cluster.last_event()
        hurt.kill()
        hurt.start()  # the file may grow again
        cluster.check_replicas("grows")
        assert "replica_online" in {event["kind"] for event in cluster.events(last_event)}
        with RawClient(cluster.leader_of("grows").bootstrap) as raw:
            assert raw.end_offset("grows") == acknowledged
