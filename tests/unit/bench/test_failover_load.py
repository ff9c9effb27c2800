from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from bench.load.kafka_failover import SteadyWrites, is_gone

if TYPE_CHECKING:
    from confluent_kafka import Producer


class HeldBack:
    """A producer whose messages are acknowledged when the test says so."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def produce(self, _topic: str, _payload: bytes, *, partition: int, on_delivery: Any) -> None:
        assert partition == 0
        self.reports.append(on_delivery)

    def poll(self, _seconds: float) -> None:
        pass

    def flush(self, _seconds: float) -> int:
        return len(self.reports)


def test_an_answer_that_was_under_way_does_not_count() -> None:
    producer = HeldBack()
    writes = SteadyWrites(cast("Producer", producer), "t")
    writes.until(lambda: writes.written == 2, "two messages")
    writes.counted_from = writes.written
    writes.until(lambda: writes.written == 4, "two more")
    for report in producer.reports[:2]:
        report(None, None)
    assert (writes.acknowledged, writes.counted_at) == (2, None)
    producer.reports[2](None, None)
    first = writes.counted_at
    assert first is not None
    producer.reports[3](None, None)
    assert (writes.acknowledged, writes.counted_at) == (4, first)


def test_a_message_that_failed_or_is_left_ends_the_load() -> None:
    producer = HeldBack()
    writes = SteadyWrites(cast("Producer", producer), "t")
    writes.until(lambda: writes.written == 1, "a message")
    with pytest.raises(SystemExit, match="message 0: broken"):
        producer.reports[0]("broken", None)
    with pytest.raises(SystemExit, match="1 messages not acknowledged"):
        writes.flush()


def test_a_killed_process_is_gone_before_its_parent_has_looked() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not is_gone(process.pid)
        process.kill()
        deadline = time.monotonic() + 10
        while not is_gone(process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        process.communicate()
    assert is_gone(process.pid)
