"""Penstock as its users run it: `penstock up --brokers 3`, whose supervisor starts again what ends."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.process import UnavailableError, spawn, stop, wait_until

BROKERS: Final = 3
READY: Final = re.compile(rb"ready kafka=(\S+) http=(\S+)")
READY_SECONDS_MAX: Final = 180
HTTP_SECONDS_MAX: Final = 5.0
WELL_SECONDS_MAX: Final = 90.0
POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class SupervisedCluster:
    bootstrap: str
    http: str
    supervisor_pid: int

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.http}/v1/cluster", timeout=HTTP_SECONDS_MAX) as answer:
            told: dict[str, Any] = json.loads(answer.read())
        return told

    def wait_well(self, topic: str) -> dict[str, Any]:
        """The state of the cluster once all brokers run, and have the topic in sync."""
        return self._wait(lambda told: is_well(told, topic), f"all replicas of {topic} in sync")

    def active_controller(self) -> int:
        return int(self._wait(lambda told: told["controller"] is not None, "a controller")["controller"])

    def _wait(self, is_so: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        deadline = time.monotonic() + WELL_SECONDS_MAX
        while not is_so(told := self.status()):
            if time.monotonic() > deadline:
                raise UnavailableError(f"{what}: not after {WELL_SECONDS_MAX:.0f} s")
            time.sleep(POLL_SECONDS)
        return told


def is_well(told: dict[str, Any], topic: str) -> bool:
    in_sync = [
        len(partition["isr"])
        for each in told["topics"]
        if each["name"] == topic
        for partition in each["partitions"]
    ]
    return in_sync == [BROKERS] and all(broker["state"] == "running" for broker in told["brokers"])


@contextmanager
def running(directory: Path) -> Iterator[SupervisedCluster]:
    log = directory / "log"
    options = ["--brokers", BROKERS, "--port", 0, "--http-port", 0, "--no-gateway"]
    process = spawn([sys.executable, "-m", "penstock", "up", *options, "--data", directory / "data"], log)
    try:
        wait_until(
            lambda: READY.search(log.read_bytes()) is not None, "penstock up", process, READY_SECONDS_MAX
        )
        found = READY.search(log.read_bytes())
        assert found is not None
        yield SupervisedCluster(found[1].decode(), found[2].decode(), process.pid)
    finally:
        stop(process)
