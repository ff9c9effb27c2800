"""kill -9 in the middle of heavy writes, again and again: what was acknowledged is there, once, in order."""

from __future__ import annotations

import os
import random
import threading
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.broker import BrokerProcess
from tests.support.raw import RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

CRASHES = int(os.environ.get("PENSTOCK_CRASHES", "10"))
TOPIC = "writes"
IN_FLIGHT_MAX = 20_000


class Writer:
    """An idempotent producer that never stops, in a thread; remembers where each number was acknowledged."""

    def __init__(self, bootstrap: str, padding: bytes) -> None:
        self.acknowledged: dict[int, int] = {}
        self.failures: list[str] = []
        self.sent = 0
        self._padding = padding
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self.sent - len(self.acknowledged) < IN_FLIGHT_MAX:
                number = self.sent
                self._producer.produce(
                    TOPIC,
                    b"%d:" % number + self._padding,
                    on_delivery=lambda error, message, number=number: self._delivered(number, error, message),
                )
                self.sent += 1
            self._producer.poll(0 if self.sent % 64 else 0.001)

    def _delivered(self, number: int, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self.failures.append(f"{number}: {error}")
        else:
            self.acknowledged[number] = message.offset()  # type: ignore[attr-defined]

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


def read_all(bootstrap: str) -> list[tuple[int, int]]:
    """(offset, number) of every message in the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    try:
        partition = TopicPartition(TOPIC, 0, 0)
        consumer.assign([partition])
        _, end = consumer.get_watermark_offsets(partition, timeout=10)
        found: list[tuple[int, int]] = []
        while not found or found[-1][0] < end - 1:
            # It waits for all of the number, so no more may be asked for than are left.
            left = end - 1 - (found[-1][0] if found else -1)
            messages = consumer.consume(min(left, 10_000), timeout=10)
            assert messages, f"nothing more after {len(found)} of {end}"
            for message in messages:
                assert message.error() is None, message.error()
                found.append((message.offset(), int(message.value().split(b":", 1)[0])))
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("flush", ["commit", "os"])
def test_kill_9_in_the_middle_of_writes(tmp_path: Path, flush: str) -> None:
    """Under flush=os too: what was handed to the operating system survives the death of the process."""
    seed = int(os.environ.get("PENSTOCK_SEED", "7"))
    chance = random.Random(seed)
    with BrokerProcess(tmp_path, "--flush", flush) as broker:
        writer = Writer(broker.bootstrap, b"x" * 400)
        try:
            for _ in range(CRASHES if flush == "commit" else max(CRASHES // 5, 1)):
                acknowledged = len(writer.acknowledged)
                wait_until(lambda: len(writer.acknowledged) > acknowledged, "writes to go on", timeout_s=30)  # noqa: B023
                threading.Event().wait(chance.uniform(0, 0.25))  # the random moment, not luck
                broker.restart(clean=False)
        finally:
            writer.finish()
        assert writer.failures == []
        assert len(writer.acknowledged) == writer.sent
        found = read_all(broker.bootstrap)
        print(f"seed {seed}: {writer.sent} messages, {len(found)} found")
        by_number = {number: offset for offset, number in found}
        assert len(by_number) == len(found), "a message appears twice"
        assert [number for _, number in found] == sorted(by_number), "order changed"
        assert by_number == writer.acknowledged


def test_a_torn_tail_is_cut_and_said_so(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic(TOPIC)
            for _ in range(5):
                assert client.produce(TOPIC, make_batch([b"v"] * 3)).error_code.name == "none"
        broker.kill()
        (segment,) = (broker.data / f"{TOPIC}-0").glob("*.log")
        whole = segment.read_bytes()
        segment.write_bytes(whole + whole[: len(whole) // 5 - 7])
        broker.start()
        assert "cut" in broker.log
        assert segment.name in broker.log
        assert segment.read_bytes() == whole
        with RawClient(broker.bootstrap) as client:
            assert client.end_offset(TOPIC) == 15
            assert client.produce(TOPIC, make_batch([b"v"] * 1)).base_offset == 15


def test_damage_behind_acknowledged_data_is_refused_not_skipped(tmp_path: Path) -> None:
    """One clear line, and no number of starts harms anything: what is damaged was acknowledged."""
    with BrokerProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic(TOPIC)
            for _ in range(5):
                assert client.produce(TOPIC, make_batch([b"v"] * 3)).error_code.name == "none"
        broker.kill()
        (segment,) = (broker.data / f"{TOPIC}-0").glob("*.log")
        damaged = bytearray(segment.read_bytes())
        damaged[len(damaged) // 2] ^= 0xFF
        segment.write_bytes(damaged)
        for _ in range(2):
            broker.start()
            with RawClient(broker.bootstrap) as client:
                assert client.fetch(TOPIC, 0).error_code.name == "kafka_storage_error"
                assert client.produce(TOPIC, make_batch([b"v"])).error_code.name == "kafka_storage_error"
            assert broker.terminate() == 0
            assert segment.read_bytes() == damaged
        assert f"{TOPIC}-0 is out of service here: {segment} is damaged at byte" in broker.log
        assert "Traceback" not in broker.log
