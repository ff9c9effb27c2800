"""How busy this broker is, for the balancer: measured where it is, reported with heartbeats.

Busy is the share of time in which the event loop's thread ran or waited for a processor, which Linux counts
(/proc/…/schedstat); elsewhere its processor time alone. What a partition takes of it is estimated from what
was done for it: a request costs about as much as a hundred kilobytes, and where processors are short all of
it takes longer. Measuring each would cost more than the figures are worth, for the balancer has to know which
partition is hot and about how much.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.wire.broker_heartbeat import PARTITIONS_MAX, LoadData, PartitionLoadData

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

REPORT_S_MIN: Final = 0.4
TOUCH_S: Final = 120e-6
"""What a batch that is appended or read costs, about: see docs/benchmarks.md, single messages."""
BYTE_S: Final = 1.2e-9
"""What a byte of it costs: see there, large batches."""
WORTH_TELLING: Final = 0.001
"""Share of the time. What is below it is not named."""
TICK_S: Final = 0.25


class LoadMeter:
    """To be made and asked on the event loop's thread."""

    def __init__(self, data: Path | None, partitions: Callable[[], Iterable[Partition]]) -> None:
        """`data`: the folder whose disk may fill up, if there is one."""
        self._data = data
        self._partitions = partitions
        self._loop = asyncio.get_running_loop()
        self._measured_at = self._loop.time()
        self._ran_s, self._wanted_s = thread_times_s()
        self._cpu_s = time.process_time()
        self._counted: dict[Partition, tuple[int, int, int]] = {}
        self._late_s = 0.0
        self._tick: asyncio.TimerHandle | None = None
        self.last = LoadData(0.0, 0.0, 0.0, *self._disk(), ())

    def start(self) -> None:
        self._expect()

    def stop(self) -> None:
        if self._tick is not None:
            self._tick.cancel()

    def _expect(self) -> None:
        due = self._loop.time() + TICK_S
        self._tick = self._loop.call_at(due, self._ticked, due)

    def _ticked(self, due: float) -> None:
        self._late_s = max(self._late_s, self._loop.time() - due)
        self._expect()

    def report(self) -> LoadData:
        """Of the time since the last report; the same again when that is very short."""
        now = self._loop.time()
        elapsed_s = now - self._measured_at
        if elapsed_s < REPORT_S_MIN:
            return self.last
        (ran_s, wanted_s), cpu_s = thread_times_s(), time.process_time()
        busy = min(1.0, (wanted_s - self._wanted_s) / elapsed_s)
        stretched = (wanted_s - self._wanted_s) / max(ran_s - self._ran_s, 1e-6)
        partitions = self._measure_partitions(elapsed_s, busy, stretched)
        self.last = LoadData(
            busy, (cpu_s - self._cpu_s) / elapsed_s, self._late_s * 1000, *self._disk(), partitions
        )
        self._measured_at, self._late_s = now, 0.0
        self._ran_s, self._wanted_s, self._cpu_s = ran_s, wanted_s, cpu_s
        return self.last

    def _measure_partitions(self, elapsed_s: float, busy: float, stretched: float) -> list[PartitionLoadData]:
        """`stretched`: how much longer work takes than it would with a processor of its own."""
        counted, found = {}, []
        for partition in self._partitions():
            if not partition.is_leader:
                continue
            now = counted[partition] = (partition.touches, partition.appended_bytes, partition.read_bytes)
            before = self._counted.get(partition, now)
            if now == before:
                continue
            touches, bytes_in, bytes_out = (
                (new - old) / elapsed_s for new, old in zip(now, before, strict=True)
            )
            share = stretched * (touches * TOUCH_S + (bytes_in + bytes_out) * BYTE_S)
            found.append(PartitionLoadData(partition.topic_id, partition.index, bytes_in, bytes_out, share))
        self._counted = counted
        total = sum(each.share for each in found)
        if total > busy:  # they cannot take more than there is
            found = [each._replace(share=each.share * busy / total) for each in found]
        found = [each for each in found if each.share >= WORTH_TELLING]
        found.sort(key=lambda each: -each.share)
        return found[:PARTITIONS_MAX]

    def _disk(self) -> tuple[int, int]:
        """Bytes left, and in all; nothing where there is no disk of our own."""
        if self._data is None:
            return 0, 0
        try:
            found = os.statvfs(self._data)
        except OSError:
            return 0, 0
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def thread_times_s() -> tuple[float, float]:
    """For how long this thread ran; and with the time in which it was ready to run and had no processor."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            ran_ns, waited_ns, _ = file.read().split()
    except (OSError, ValueError):
        return time.thread_time(), time.thread_time()
    return int(ran_ns) / 1e9, (int(ran_ns) + int(waited_ns)) / 1e9
