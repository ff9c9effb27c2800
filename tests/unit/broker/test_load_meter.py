from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.broker.load_meter import REPORT_S_MIN, LoadMeter
from penstock.metadata.assignments import NewTopic
from penstock.wire.batch import read_header
from tests.support.raw import make_batch
from tests.unit.broker.in_process import InProcess, with_broker

if TYPE_CHECKING:
    from penstock.wire.broker_heartbeat import LoadData

BATCH = make_batch([b"x" * 100])


def spin(seconds: float) -> None:
    """Needs the processor for so long, however long that takes."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def report_after(meter: LoadMeter, work_s: float) -> LoadData:
    meter.report()
    await asyncio.sleep(REPORT_S_MIN)
    meter.report()
    spin(work_s)
    await asyncio.sleep(max(0.0, REPORT_S_MIN - work_s) + 0.01)
    return meter.report()


def test_a_loop_that_works_is_busy_and_one_that_waits_is_not() -> None:
    async def measure() -> tuple[LoadData, LoadData]:
        meter = LoadMeter(None, lambda: ())
        meter.start()
        try:
            return await report_after(meter, 0.0), await report_after(meter, 2 * REPORT_S_MIN)
        finally:
            meter.stop()

    idle, working = asyncio.run(measure())
    assert working.busy > 0.8 > idle.busy + 0.3
    assert working.queue_ms > 100
    assert working.cpu > 0


def test_what_partitions_take_is_never_more_than_there_is() -> None:
    async def work(client: InProcess) -> None:
        await client.broker.controller.create_topics([NewTopic("hot"), NewTopic("cold")])
        await client.broker.controller.publisher.settled()
        meter = LoadMeter(None, client.broker.partitions.__iter__)
        meter.report()
        await asyncio.sleep(REPORT_S_MIN)
        meter.report()
        hot = client.broker.partitions.require("hot", 0)
        for _ in range(200):
            hot.append(BATCH, read_header(BATCH))
        hot.read_bytes += 10**12  # more than any loop can read
        await asyncio.sleep(REPORT_S_MIN)
        load = meter.report()
        (found,) = load.partitions
        assert (found.topic_id, found.partition) == (hot.topic_id, 0)
        assert found.bytes_in > 0
        assert found.share == pytest.approx(load.busy)
        assert meter.report() is load  # so soon nothing can be measured

    with_broker(work)


def test_the_disk_of_the_data_folder(tmp_path: Path) -> None:
    async def measure(folder: Path | None) -> LoadData:
        return LoadMeter(folder, lambda: ()).report()

    load = asyncio.run(measure(tmp_path))
    assert 0 < load.disk_free <= load.disk_size
    for nowhere in (None, tmp_path / "no"):
        load = asyncio.run(measure(nowhere))
        assert (load.disk_free, load.disk_size) == (0, 0)
