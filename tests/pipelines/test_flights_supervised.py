"""`penstock up --flights` with the real driver: killed in the middle of a job, when rows are saved and Spark
has not noted it down, it is started again by the supervisor, and the job has the oracle's results, each row
once.
"""

from __future__ import annotations

import signal
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.flights.topics import PARTITIONS, RESULTS
from penstock.supervisor.services import FLIGHTS
from tests.support import processes
from tests.support.flights_jobs import (
    Upload,
    check_topic,
    make_table,
    send,
    uploads_of,
    wait_state,
    written_results,
)
from tests.support.flights_service import newest, remove_newest_commit
from tests.support.supervised import SupervisedCluster
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

ROWS = 1_000
CHUNK_BYTES = 32 * 1024
READY_S_MAX, STOP_S_MAX = 180.0, 60.0


class Driver:
    """The driver that the supervisor runs, whichever process it is now."""

    def __init__(self, cluster: SupervisedCluster) -> None:
        self._cluster = cluster
        self._folder = cluster.folder.service(FLIGHTS)
        self.data = self._folder.data

    @property
    def pid(self) -> int:
        pid = self._folder.read_pid()
        assert pid is not None
        return pid

    @property
    def java(self) -> int:
        """The process of Spark itself: without it this is no real driver."""
        (pid,) = (pid for pid in processes.descendants(self.pid) if processes.name_of(pid) == "java")
        return pid

    @property
    def is_amid_a_batch(self) -> bool:
        return newest(self.data, "offsets") > newest(self.data, "commits")

    def wait_ready(self, times: int) -> None:
        """The supervisor has seen so many drivers become ready."""
        ready = f"{FLIGHTS}_ready"
        wait_until(
            lambda: len(self._cluster.events(ready)) == times,
            f"driver {times} is ready",
            timeout_s=READY_S_MAX,
        )


class Ends:
    """Where the partitions of the topic of results end, with what is not committed."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "log_level": 0})
        self._partitions = [TopicPartition(RESULTS, partition) for partition in range(PARTITIONS)]

    def read(self) -> list[Any]:
        return [self._consumer.get_watermark_offsets(each, timeout=30.0) for each in self._partitions]

    def close(self) -> None:
        self._consumer.close()


def die_while_saving(bootstrap: str, driver: Driver, job: str, uploads: Sequence[Upload]) -> None:
    """Java stands still from when the rows of a batch are on the topic, so that Spark cannot note down that
    it is done; if it was faster, its note is taken away. Then driver and Java are killed."""
    java, pid = driver.java, driver.pid
    with closing(Ends(bootstrap)) as ends:
        before = ends.read()
        send(bootstrap, job, uploads)
        wait_until(lambda: ends.read() != before, "rows on the topic of results", timeout_s=60, at_once=True)
        processes.kill(java, signal.SIGSTOP)
    wait_until(lambda: job in written_results(bootstrap), "the rows are committed", timeout_s=60)
    if not driver.is_amid_a_batch:
        remove_newest_commit(driver.data)
    assert driver.is_amid_a_batch
    for each in (pid, java):
        assert processes.kill(each)


@pytest.mark.timeout(600)
def test_the_supervisor_restarts_a_driver_killed_while_saving_in_the_middle_of_a_job_and_no_row_is_repeated(
    tmp_path: Path,
) -> None:
    table = make_table(tmp_path / "table", ROWS, seed=6)
    uploads = uploads_of(table.files, CHUNK_BYTES)
    first, second = len(uploads) // 3, 2 * len(uploads) // 3
    with SupervisedCluster(tmp_path, "--flights", brokers=1, controllers=1, with_gateway=True) as cluster:
        driver = Driver(cluster)
        driver.wait_ready(1)
        killed, java = driver.pid, driver.java
        job = str(uuid.uuid4())
        die_while_saving(cluster.bootstrap, driver, job, uploads[:second])
        send(cluster.bootstrap, job, uploads[first:])  # some that it has had already, and the rest

        driver.wait_ready(2)
        assert driver.pid != killed
        assert [event["cause"] for event in cluster.events(f"{FLIGHTS}_ended")] == ["killed by SIGKILL"]
        assert driver.java != java
        told = wait_state(cluster.http, job, "complete", "failed")
        assert told["state"] == "complete", told
        assert told["files"]["itineraries"]["duplicates"] > 0
        table.check(driver.data / "results" / job)
        check_topic(cluster.bootstrap, cluster.http, {job: table}, tmp_path)
        java = driver.java
        assert processes.kill(driver.pid)
        wait_until(lambda: processes.stat_fields(java) is None, "the end of the driver's Java", timeout_s=60)
        assert cluster.terminate(timeout_s=STOP_S_MAX * PATIENCE) == 0
