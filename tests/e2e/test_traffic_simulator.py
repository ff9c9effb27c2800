"""`penstock traffic simulate` on a real broker: the topics hold what the truth says, and nothing else."""

from __future__ import annotations

import json
import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from penstock.client.errors import InvalidPositionError
from penstock.traffic.city_map import read_map
from penstock.traffic.grid import DEFAULT_GRID
from penstock.traffic.position import FUTURE_MS_MAX, Position
from penstock.traffic.simulator.faults import LATE_AFTER_MS
from penstock.traffic.topics import QUADRANT_PARTITIONS
from tests.support import managed_process
from tests.support.commands import environment, penstock
from tests.support.managed_process import ManagedProcess
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from tests.support.broker import BrokerProcess

OLD_MS = 60_000
WINDOW_MS = 5_000


class Simulator(ManagedProcess):
    """A simulator that runs until it is told to stop."""

    def __init__(self, broker: BrokerProcess, folder: Path, *options: str) -> None:
        self.truth_path = folder / "truth.json"
        self._arguments = [*options, "--truth", str(self.truth_path)]
        self._progress = folder / "progress"
        super().__init__(
            "penstock traffic simulate",
            folder / "summary",
            errors=self._progress,
            environment=environment(broker),
            stop_s_max=30.0,
        )

    def command(self) -> list[str]:
        return managed_process.penstock("traffic", "simulate", *self._arguments)

    def __enter__(self) -> Self:
        self.spawn()
        return self

    @property
    def lines(self) -> list[str]:
        return self._progress.read_text().splitlines()

    def wait_for_lines(self, count: int, timeout_s: float) -> None:
        self.wait_until(
            lambda: len(self.lines) >= count or not self.running,
            f"{count} lines of progress",
            timeout_s=timeout_s,
        )

    def stop(self, number: int) -> str:
        """What it prints at its end."""
        self.signal(number)
        assert self.wait() == 0, self.lines
        return self.log

    @property
    def truth(self) -> dict:
        return json.loads(self.truth_path.read_text())


@dataclass
class Log:
    """What a reader makes of everything on the topics of the quadrants, by rules of its own."""

    records: int = 0
    per_topic: Counter[str] = field(default_factory=Counter)
    cells: Counter[str] = field(default_factory=Counter)
    good: int = 0
    duplicates: int = 0
    repeated_later: int = 0
    late: int = 0
    ancient: int = 0
    broken: Counter[str] = field(default_factory=Counter)


def read_log(broker: BrokerProcess) -> Log:
    log = Log()
    seen: dict[tuple[str, int], tuple[int, bytes]] = {}
    for topic, stamp, value in read_all(broker):
        log.records += 1
        log.per_topic[topic] += 1
        try:
            position = check(topic, stamp, value)
        except InvalidPositionError as error:
            log.broken[error.field] += 1
            continue
        if stamp - position.ts > OLD_MS:
            log.late += 1
            log.ancient += stamp - position.ts > 86_400_000
        elif (position.car, position.ts) in seen:
            log.duplicates += 1
            first_stamp, first_value = seen[position.car, position.ts]
            assert first_value == value, "a duplicate is the same to the byte"
            log.repeated_later += stamp - first_stamp > 1_000
        else:
            seen[position.car, position.ts] = (stamp, value or b"")
            log.good += 1
            cell = DEFAULT_GRID.cell(position.lat, position.lon)
            log.cells[f"{cell.row}.{cell.col}.{position.ts // WINDOW_MS * WINDOW_MS}"] += 1
    return log


def check(topic: str, stamp: int, value: bytes | None) -> Position:
    if value is None:
        raise InvalidPositionError("null", "no value")
    if not value:
        raise InvalidPositionError("empty", "nothing in it")
    position = Position.from_json(value)
    if position.ts > stamp + FUTURE_MS_MAX:
        raise InvalidPositionError("future", "too far ahead")
    if not DEFAULT_GRID.contains(position.lat, position.lon):
        raise InvalidPositionError("outside", "not on the map")
    if DEFAULT_GRID.topic(position.lat, position.lon) != topic:
        raise InvalidPositionError("elsewhere", "another quadrant")
    return position


def read_all(broker: BrokerProcess) -> Iterator[tuple[str, int, bytes | None]]:
    """Topic, time of writing and value of everything."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "check", "enable.auto.commit": False}
    )
    try:
        partitions = [
            TopicPartition(topic, index, 0)
            for topic in DEFAULT_GRID.topics()
            for index in range(QUADRANT_PARTITIONS)
        ]
        left = sum(consumer.get_watermark_offsets(partition, timeout=10)[1] for partition in partitions)
        consumer.assign(partitions)
        while left:
            messages = consumer.consume(min(left, 10_000), timeout=10)
            assert messages, f"{left} records are missing"
            for message in messages:
                assert message.error() is None
                yield str(message.topic()), message.timestamp()[1], message.value()
            left -= len(messages)
    finally:
        consumer.close()


def ends(broker: BrokerProcess) -> dict[str, int]:
    """Records written to each topic so far."""
    return dict(read_log(broker).per_topic)


def test_the_topics_hold_what_the_truth_says(file_broker: BrokerProcess, tmp_path: Path) -> None:
    faults = ("--duplicates", "0.06", "--late", "0.4", "--broken", "0.04")
    seconds = LATE_AFTER_MS // 1_000 + 2
    with Simulator(
        file_broker, tmp_path, "--cars", "400", "--rate", "2", "--seed", "5", *faults
    ) as simulator:
        simulator.wait_for_lines(seconds, timeout_s=seconds + 15)
        summary = simulator.stop(signal.SIGTERM)
        truth = simulator.truth
    log = read_log(file_broker)
    assert truth["unknown"] == 0
    assert log.records == truth["sent"]
    assert truth["sent"] == truth["good"] + truth["duplicates"] + truth["late"] + truth["broken"]
    assert log.good == truth["good"] > 5_000
    assert log.duplicates == truth["duplicates"] > 100
    assert 0 < log.repeated_later < log.duplicates, "some at once, some later"
    assert log.late == truth["late"] > 0
    assert 0 < log.ancient < log.late
    assert log.broken.total() == truth["broken"] > 100
    assert dict(log.cells) == truth["cells"]
    # Every reason that a reader can have, and every quadrant.
    fields = {"json", "car", "lat", "lon", "speed", "heading", "ts"}
    assert set(log.broken) == fields | {"null", "empty", "future", "outside", "elsewhere"}
    assert set(log.per_topic) == set(DEFAULT_GRID.topics())
    assert summary.startswith(f"sent {truth['sent']}: {truth['good']} good, ")
    assert simulator.lines[0].startswith("sent ")
    assert "per second)" in simulator.lines[-1]


def test_cars_of_one_quadrant_and_ctrl_c(file_broker: BrokerProcess, tmp_path: Path) -> None:
    before = ends(file_broker)
    with Simulator(file_broker, tmp_path, "--cars", "50", "--quadrants", "r0.c1", "--json") as simulator:
        simulator.wait_for_lines(1, timeout_s=15)
        answer = json.loads(simulator.stop(signal.SIGINT))
        truth = simulator.truth
    after = ends(file_broker)
    new = {topic: after[topic] - before.get(topic, 0) for topic in after}
    assert {topic for topic, count in new.items() if count} == {"traffic.r0.c1"}
    assert new["traffic.r0.c1"] == truth["sent"] == truth["good"] == answer["sent"] > 0
    # The southern half of the map, its eastern half.
    cells = DEFAULT_GRID.cells
    for key in truth["cells"]:
        row, col, _ = map(int, key.split("."))
        assert row < cells <= col


def test_the_streets_are_on_the_map_that_everybody_reads(file_broker: BrokerProcess, tmp_path: Path) -> None:
    answer = penstock("traffic", "simulate", "--cars", "10", "--seconds", "0.5", "--json", broker=file_broker)
    assert json.loads(answer.lines[0])["good"] > 0
    found = read_map(file_broker.bootstrap)
    assert found.grid == DEFAULT_GRID
    assert found.streets is not None
    assert {each["properties"]["kind"] for each in found.streets["features"]} >= {"bridge", "river", "avenue"}


def test_what_cannot_be_done_is_said(file_broker: BrokerProcess, tmp_path: Path) -> None:
    nobody = penstock("traffic", "simulate", "--bootstrap", f"127.0.0.1:{free_port()}")
    assert nobody.complaint.startswith("no broker reachable")
    elsewhere = penstock("traffic", "simulate", "--quadrants", "r7.c0", broker=file_broker)
    assert elsewhere.complaint == "the map has no quadrant r7.c0"
    wrong = penstock("traffic", "simulate", "--rate", "nan", broker=file_broker)
    assert wrong.code == 2
    assert "more than 0" in wrong.err
