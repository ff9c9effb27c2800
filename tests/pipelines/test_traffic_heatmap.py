"""`penstock traffic heatmap` on a real broker: killed, robbed of its last commit, with the broker killed
under it, and fed with duplicates, late and broken messages; what it counts is what was sent.

The job runs in processes of its own. The test writes positions with event times of its own choosing, a few
windows further in each round, and knows from the totals which watermark a round has left behind. So it knows
of every message what must become of it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.pipelines.claim import FolderError
from penstock.pipelines.traffic.checkpoint import claimed_checkpoint
from penstock.pipelines.traffic.tally import Shape
from penstock.traffic.city_map import publish_map
from penstock.traffic.grid import BBox, Grid
from penstock.traffic.heat import HeatCell, Totals, parse_heat
from penstock.traffic.topics import HEATMAP
from tests.support import topics
from tests.support.broker import BrokerProcess
from tests.support.java import QUICK_START
from tests.support.managed_process import ManagedProcess, environment_with
from tests.support.wait import wait_until

KILLS = int(os.environ.get("PENSTOCK_HEATMAP_KILLS", "1"))
START_S_MAX, COUNT_S_MAX = 180.0, 120.0
WINDOW_MS, WATERMARK_MS = 2_000, 4_000
ROUND_MS = WATERMARK_MS
"""No position of a round is late because of another one, whatever batches they come in."""
KILL_AFTER_S_MAX = 1.5
GRID = Grid(BBox(8.0, 47.0, 9.0, 48.0), rows=1, cols=3, cells=6)
LATER_TOPIC = "traffic.r0.c2"
"""Its first message comes when the job has been running for a while."""
BROKEN: tuple[tuple[str, bytes | None], ...] = (
    ("json", None),
    ("json", b"\xff\x00{"),
    ("json", b'{"x":' + b"[" * 3_000 + b"]" * 3_000 + b"}"),
    ("car", b'{"car":"' + b"y" * 500_000 + b'"}'),
    ("json", b'{"car":"a","lat":NaN,"lon":8.5,"speed":1,"heading":1,"ts":1}'),
    ("lat", b'{"car":"a","lat":"47.5","lon":8.5,"speed":1,"heading":1,"ts":1}'),
    ("ts", b'{"car":"a","lat":47.5,"lon":8.1,"speed":1,"heading":1,"ts":1e300}'),
    ("future", b'{"car":"a","lat":47.5,"lon":8.1,"speed":1,"heading":1,"ts":253402300799999}'),
    ("outside", b'{"car":"a","lat":46.5,"lon":8.1,"speed":1,"heading":1,"ts":1}'),
    ("elsewhere", b'{"car":"a","lat":47.5,"lon":8.9,"speed":1,"heading":1,"ts":1}'),
)


@dataclass
class Traffic:
    """What was sent, and what must become of it."""

    bootstrap: str
    chance: random.Random
    began_ms: int
    rounds: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    cells: Counter[bytes] = field(default_factory=Counter)
    last_round: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def write_round(self, size: int, columns: int) -> None:
        """Good positions of the next two windows, some of them twice, and broken ones; all in any order."""
        start = self.began_ms + self.rounds * ROUND_MS
        good = [self._position(start, columns) for _ in range(size)]
        twice = self.chance.sample(good, size // 10)
        for _, position in good:
            self._count(position)
        self.sent.update(counted=len(good), duplicate=len(twice), malformed=len(BROKEN))
        self.reasons.update(reason for reason, _ in BROKEN)
        self.last_round = good
        self._write([*good, *twice], [value for _, value in BROKEN])
        self.rounds += 1

    def write_again_too_late(self, size: int) -> None:
        """Positions of the last round, which are late once the watermark has passed their windows."""
        self.sent.update(late=size)
        self._write(self.chance.sample(self.last_round, size), [])

    def totals(self) -> tuple[int, ...]:
        return self.sent.total(), *(self.sent[name] for name in ("counted", "late", "duplicate", "malformed"))

    def _position(self, start: int, columns: int) -> tuple[str, dict[str, Any]]:
        lat, lon = self.chance.uniform(47.0, 48.0), 8.0 + self.chance.random() * columns / GRID.cols
        position = {
            "car": f"car {self.chance.randrange(1 << 60)}",
            "lat": lat,
            "lon": lon,
            "speed": 36.5,
            "heading": 12.0,
            "ts": start + self.chance.randrange(ROUND_MS),
        }
        return GRID.topic(lat, lon), position

    def _count(self, position: dict[str, Any]) -> None:
        cell, start = GRID.cell(position["lat"], position["lon"]), position["ts"] // WINDOW_MS * WINDOW_MS
        self.cells[b"%d.%d.%d" % (cell.row, cell.col, start)] += 1

    def _write(self, rows: list[tuple[str, dict[str, Any]]], broken: list[bytes | None]) -> None:
        by_topic: dict[str, list[dict[str, Any]]] = {"traffic.r0.c0": [{"value": value} for value in broken]}
        for topic, position in rows:
            key = position["car"].encode()
            by_topic.setdefault(topic, []).append({"value": json.dumps(position).encode(), "key": key})
        for topic, messages in by_topic.items():
            self.chance.shuffle(messages)
            topics.fill_all(self.bootstrap, topic, messages)


class Map:
    """What is on traffic.heatmap, read as anybody would; no figure may ever go down."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "map", "enable.auto.commit": False}
        self._consumer = Consumer(settings | {"log_level": 0})
        self._consumer.assign([TopicPartition(HEATMAP, 0, 0)])
        self.cells: dict[bytes, HeatCell] = {}
        self.totals = Totals()

    def read(self) -> Totals:
        for message in self._consumer.consume(10_000, 0.2):
            if message.error() is not None:
                continue
            key = message.key()
            assert isinstance(key, bytes)
            match parse_heat(key, message.value()):
                case HeatCell() as cell:
                    assert key not in self.cells or cell.count >= self.cells[key].count, "a count went down"
                    self.cells[key] = cell
                case Totals() as totals:
                    assert totals.sent >= self.totals.sent, "the totals went down"
                    assert totals.counted == sum(cell.count for cell in self.cells.values())
                    self.totals = totals
        return self.totals

    def wait_for(self, sent: int) -> None:
        wait_until(lambda: self.read().sent >= sent, f"{sent} positions", timeout_s=COUNT_S_MAX)

    def close(self) -> None:
        self._consumer.close()


def command(bootstrap: str, folder: Path, *options: str) -> list[str]:
    heatmap = [sys.executable, "-m", "penstock", "traffic", "heatmap", "--bootstrap", bootstrap]
    times = ["--window", str(WINDOW_MS // 1000), "--watermark", str(WATERMARK_MS // 1000)]
    return [*heatmap, "--master", "local[2]", "--checkpoint", str(folder / "checkpoint"), *times, *options]


ENVIRONMENT = environment_with(JAVA_TOOL_OPTIONS=QUICK_START)


class HeatmapJob(ManagedProcess):
    """The job, which is killed with all its processes at the end of a `with`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        super().__init__(
            "the job",
            folder / "job.log",
            ready=f"ready heatmap checkpoint={folder / 'checkpoint'}",
            environment=ENVIRONMENT,
            own_group=True,
            ready_s_max=START_S_MAX,
            stop_s_max=START_S_MAX,
        )
        self._command = command(bootstrap, folder)

    def command(self) -> list[str]:
        return self._command

    def end(self) -> None:
        self.kill()


def remove_last_commit(folder: Path) -> bool:
    commits = folder / "checkpoint" / "spark" / "commits"
    found = [path for path in commits.glob("*") if path.name.isdigit()]
    if not found:
        return False
    last = max(found, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    return True


@pytest.mark.timeout(0)
def test_what_is_counted_is_what_was_sent(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", "11"))
    chance = random.Random(seed)
    with BrokerProcess(tmp_path) as broker:
        publish_map(broker.bootstrap, GRID)
        for topic in GRID.topics():
            if topic != LATER_TOPIC:
                topics.create_topic(broker.bootstrap, topic, 2, message_timestamp_type="LogAppendTime")
        traffic = Traffic(broker.bootstrap, chance, time.time_ns() // 1_000_000 - 60_000)
        seen: Map | None = None
        removed = 0
        for _ in range(KILLS):
            with HeatmapJob(broker.bootstrap, tmp_path):
                seen = seen or Map(broker.bootstrap)
                traffic.write_round(500, columns=2)
                seen.wait_for(traffic.sent.total())
                traffic.write_round(1_000, columns=2)
                threading.Event().wait(chance.uniform(0, KILL_AFTER_S_MAX))  # the random moment, not luck
            removed += remove_last_commit(tmp_path)
        assert seen is not None
        assert removed > 0
        with HeatmapJob(broker.bootstrap, tmp_path) as job:
            seen.wait_for(traffic.sent.total())
            # The watermark of the batch to come is behind what these were: two rounds ago.
            late = traffic.last_round
            traffic.write_round(200, columns=2)
            traffic.write_round(200, columns=2)
            seen.wait_for(traffic.sent.total())
            traffic.last_round = late
            traffic.write_again_too_late(50)
            seen.wait_for(traffic.sent.total())
            broker.kill()
            broker.start()
            topics.create_topic(broker.bootstrap, LATER_TOPIC, 2, message_timestamp_type="LogAppendTime")
            traffic.write_round(500, columns=3)
            seen.wait_for(traffic.sent.total())
            assert job.terminate() == 0
        seen.close()
        check(traffic, seen, seed)
        check_refusals(broker.bootstrap, tmp_path)


def check(traffic: Traffic, seen: Map, seed: int) -> None:
    found = seen.totals
    assert (found.sent, found.counted, found.late, found.duplicate, found.malformed) == traffic.totals(), seed
    assert dict(found.reasons) == dict(traffic.reasons)
    counts = {key: cell.count for key, cell in seen.cells.items() if cell.count}
    assert counts == dict(traffic.cells), f"seed {seed}"
    assert {cell.speed for cell in seen.cells.values()} <= {36.5, None}
    assert any(key.startswith(b"0.") for key, cell in seen.cells.items() if cell.count == 0), (
        "no cell emptied"
    )
    for key, cell in seen.cells.items():
        if cell.count == 0:
            before = b"%d.%d.%d" % (cell.row, cell.col, cell.start_ms - WINDOW_MS)
            assert traffic.cells[before] > 0, f"{key!r} is a zero after nothing"


def check_refusals(bootstrap: str, folder: Path) -> None:
    """A checkpoint is for one map and one window, and says so before Spark is started.

    That it takes no more than one of both is in tests/unit/pipelines/traffic/test_checkpoint.py.
    """
    other = Grid(GRID.bbox, rows=2, cols=3, cells=6)
    publish_map(bootstrap, other)
    ended = subprocess.run(
        command(bootstrap, folder, "--window", "7"),
        env=ENVIRONMENT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    told = f"{Shape(WINDOW_MS, GRID)}, and not for {Shape(7_000, other)}; use another folder"
    assert f"is a checkpoint for {told}" in ended.stderr.decode()
    (folder / "other").mkdir()
    (folder / "other" / "file").touch()
    with (
        pytest.raises(FolderError, match="no checkpoint of a heat map"),
        claimed_checkpoint(str(folder / "other"), Shape(WINDOW_MS, GRID)),
    ):
        pass
