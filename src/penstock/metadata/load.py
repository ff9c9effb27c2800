"""How busy brokers and partitions are, as the active controller has heard it in heartbeats.

It is the controller's own and is not logged: the next controller hears it anew within seconds. What brokers
measure over half a second jumps about, so it is smoothed: what was heard `HALF_LIFE_MS` ago counts half.
Time is passed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

HALF_LIFE_MS: Final = 2_000
STALE_MS: Final = 5_000
"""A broker that has said nothing for this long is not known to have room for anything."""
FORGOTTEN_SHARE: Final = 0.0005
"""A partition that falls below this share of its leader's time and is not mentioned any more is idle."""

PartitionKey = tuple[UUID, int]


class PartitionLoad(NamedTuple):
    """Of a partition, on the broker that leads it."""

    bytes_in: float = 0.0
    """Per second, from producers."""
    bytes_out: float = 0.0
    """Per second, to consumers and followers."""
    share: float = 0.0
    """Of the event loop's time."""


IDLE: Final = PartitionLoad()


class BrokerLoad(NamedTuple):
    busy: float = 0.0
    """Share of the time in which the event loop had something to do, or waited for a processor to do it."""
    cpu: float = 0.0
    """Processors in use by the whole process."""
    queue_ms: float = 0.0
    """How long what is ready to run waits for its turn."""
    disk_free: int = 0
    disk_size: int = 0
    """Bytes; 0: unknown, or no disk."""
    partitions: Mapping[PartitionKey, PartitionLoad] = MappingProxyType({})

    @property
    def disk_free_share(self) -> float:
        return self.disk_free / self.disk_size if self.disk_size else 1.0


class ClusterLoad:
    def __init__(self) -> None:
        self._known: dict[int, tuple[int, BrokerLoad]] = {}

    def heard(self, broker_id: int, report: BrokerLoad, now_ms: int) -> None:
        heard_ms, known = self._known.get(broker_id, (now_ms, report))
        if now_ms - heard_ms > STALE_MS:
            known = report
        weight = 1.0 - 0.5 ** ((now_ms - heard_ms) / HALF_LIFE_MS)
        self._known[broker_id] = (now_ms, _between(known, report, weight))

    def clear(self) -> None:
        self._known.clear()

    def maybe_of(self, broker_id: int, now_ms: int) -> BrokerLoad | None:
        heard_ms, load = self._known.get(broker_id, (0, None))
        return load if load is not None and now_ms - heard_ms <= STALE_MS else None

    def all(self, now_ms: int) -> dict[int, BrokerLoad]:
        return {
            broker_id: load
            for broker_id, (heard_ms, load) in sorted(self._known.items())
            if now_ms - heard_ms <= STALE_MS
        }


def _between(known: BrokerLoad, report: BrokerLoad, weight: float) -> BrokerLoad:
    partitions = {}
    for key in {**known.partitions, **report.partitions}:
        old, new = known.partitions.get(key, IDLE), report.partitions.get(key, IDLE)
        mixed = PartitionLoad(*(a + (b - a) * weight for a, b in zip(old, new, strict=True)))
        if key in report.partitions or mixed.share >= FORGOTTEN_SHARE:
            partitions[key] = mixed
    return BrokerLoad(
        known.busy + (report.busy - known.busy) * weight,
        known.cpu + (report.cpu - known.cpu) * weight,
        known.queue_ms + (report.queue_ms - known.queue_ms) * weight,
        report.disk_free,
        report.disk_size,
        partitions,
    )
