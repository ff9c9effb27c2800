"""What the demo finds on its topics when it reads them back from a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.demo.topics import KafkaTopics
from penstock.demo.verdict import Cells, Log
from penstock.traffic import Position, TrafficClient
from penstock.traffic.heat import TOTALS_KEY, HeatCell, Totals
from penstock.traffic.topics import HEATMAP, quadrant_topic
from tests.support.broker import BrokerProcess
from tests.support.ports import free_port
from tests.support.topics import delete_records, fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "--storage", "memory", "--no-http") as running:
        yield running


def test_positions_once_and_twice_and_the_cells_of_the_map(broker: BrokerProcess) -> None:
    topics = KafkaTopics(broker.bootstrap)
    assert topics.log() == Log(0)
    lat, lon = 49.25, -123.1
    positions = [Position(f"car-0-{car}", lat, lon, ts=ts) for car in range(50) for ts in (1_000, 2_000)]
    with TrafficClient(broker.bootstrap, "test") as client:
        client.ensure_topics()
        client.write_many(positions)
        assert topics.log() == Log(100, 0, 100, 0)
        client.write_many([*positions[:7], Position("taxi", lat, lon, ts=1_000)])
    assert topics.log() == Log(108, 7, 107, 7)

    for count in (3, 5):
        cell = HeatCell(0, 0, 0, 5_000, count, 1.0)
        fill(broker.bootstrap, HEATMAP, [cell.to_json()], key=cell.key)
    assert topics.cells() == Cells(0, 0)
    fill(broker.bootstrap, HEATMAP, [Totals(sent=5, counted=5).to_json()], key=TOTALS_KEY)
    assert topics.cells() == Cells(5, 5)


def test_a_log_that_is_not_whole_is_not_counted(broker: BrokerProcess) -> None:
    topic = quadrant_topic(0, 0)
    fill(broker.bootstrap, topic, [b"x"] * 3)
    assert KafkaTopics(broker.bootstrap).log() == Log(3)
    delete_records(broker.bootstrap, topic, before=2)
    assert KafkaTopics(broker.bootstrap).log() is None


def test_nobody_there() -> None:
    topics = KafkaTopics(f"127.0.0.1:{free_port()}", answer_s_max=0.5)
    assert topics.log() is None
    assert topics.cells() is None
