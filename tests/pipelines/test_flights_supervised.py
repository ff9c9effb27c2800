"""`penstock up --flights` with the real driver: killed in the middle of a job, it is started again by the
supervisor, and the job has the oracle's results, each row once.
"""

from __future__ import annotations

import signal
import uuid
from typing import TYPE_CHECKING

import pytest

from penstock.broker.node_status import is_alive, process_state
from penstock.supervisor.services import FLIGHTS
from tests.support import processes
from tests.support.flights_jobs import check_topic, make_table, send, status, uploads_of, wait_state
from tests.support.flights_service import newest
from tests.support.supervised import SupervisedCluster
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 1_500
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

    def java(self) -> tuple[int, int]:
        """The process of Spark itself, and when it was started: without it this is no real driver."""
        (pid,) = (pid for pid in processes.descendants(self.pid) if processes.name_of(pid) == "java")
        state = process_state(pid)
        assert state is not None
        return pid, state.started

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


@pytest.mark.timeout(600)
def test_the_supervisor_restarts_a_driver_killed_in_the_middle_of_a_job_and_its_results_are_exact(
    tmp_path: Path,
) -> None:
    table, job = make_table(tmp_path / "table", ROWS, seed=6), str(uuid.uuid4())
    uploads = uploads_of(table.files, CHUNK_BYTES)
    first, second = len(uploads) // 3, 2 * len(uploads) // 3
    with SupervisedCluster(tmp_path, "--flights", brokers=1, controllers=1, with_gateway=True) as cluster:
        driver = Driver(cluster)
        driver.wait_ready(1)
        send(cluster.bootstrap, job, uploads[:first])
        wait_state(cluster.http, job, "receiving")
        wait_until(lambda: not driver.is_amid_a_batch, "the end of a batch", timeout_s=60)
        killed, java = driver.pid, driver.java()
        send(cluster.bootstrap, job, uploads[first:second])
        wait_until(lambda: driver.is_amid_a_batch, "a batch under way", timeout_s=60, at_once=True)
        assert processes.kill(killed, signal.SIGKILL)
        send(cluster.bootstrap, job, uploads[first:])  # what it may have had or not, again, and the rest

        driver.wait_ready(2)
        assert driver.pid != killed
        assert [event["cause"] for event in cluster.events(f"{FLIGHTS}_ended")] == ["killed by SIGKILL"]
        assert driver.java() != java
        told = wait_state(cluster.http, job, "complete", "failed")
        assert told["state"] == "complete", told
        assert status(cluster.http, job)["files"]["itineraries"]["duplicates"] > 0
        check_topic(cluster.bootstrap, cluster.http, {job: table}, tmp_path)
        table.check(driver.data / "results" / job)
        wait_until(lambda: not is_alive(*java), "the end of the killed driver's Java", timeout_s=60)
        assert cluster.terminate(timeout_s=STOP_S_MAX * PATIENCE) == 0
