"""Steady writes with librdkafka's own settings, a fault in their midst: prints the seconds to the next write.

`fault` is `pause` (SIGSTOP to the leader, which nobody resumes) or `kill` (-9 to all nodes at once, which
their supervisor starts again). The first counts from the fault; the second from when the last process was
back.
Every message must be acknowledged in the end.
"""

from __future__ import annotations

import os
import signal
import time

import psutil
from confluent_kafka import Producer

from bench.load.arguments import arguments, result
from bench.load.kafka_failover import SETTLED_MESSAGES, SteadyWrites


class Successors:
    """The processes that a supervisor starts in the place of others."""

    def __init__(self, supervisor_pid: int, killed: set[int]) -> None:
        self._supervisor = psutil.Process(supervisor_pid)
        self._killed = killed
        self._seen_at: dict[int, float] = {}

    def are_back(self) -> bool:
        for child in self._supervisor.children():
            if child.pid not in self._killed:
                self._seen_at.setdefault(child.pid, time.monotonic())
        return len(self._seen_at) >= len(self._killed)

    @property
    def back_at(self) -> float:
        return max(self._seen_at.values())


def main() -> None:
    given = arguments()
    producer = Producer(
        {"bootstrap.servers": given["bootstrap"], "enable.idempotence": True, "acks": "all", "log_level": 0}
    )
    writes = SteadyWrites(producer, given["topic"])
    writes.until(lambda: writes.acknowledged >= SETTLED_MESSAGES, "a steady flow")
    since = time.monotonic()
    if given["fault"] == "pause":
        os.kill(given["pids"][0], signal.SIGSTOP)
    else:
        successors = Successors(given["supervisor_pid"], set(given["pids"]))
        for pid in given["pids"]:
            os.kill(pid, signal.SIGKILL)
        writes.until(successors.are_back, "the processes")
        since = successors.back_at
    writes.counted_from = writes.written
    writes.until(lambda: writes.counted_at is not None, "an acknowledgement")
    assert writes.counted_at is not None
    writes.flush()
    result(messages=writes.acknowledged, seconds=writes.counted_at - since)


if __name__ == "__main__":
    main()
