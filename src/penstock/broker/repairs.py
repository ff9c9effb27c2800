"""Repair: what rotted in one replica is read from another that has it whole, and written over the damage.

Committed batches are the same bytes in every replica, so the damaged stretch is filled with what an in-sync
replica has at these offsets, if it is sound and fits to the byte. The replica stays in service meanwhile: it
answers KAFKA_STORAGE_ERROR for these offsets and no others. It need not leave the in-sync set, for it never
takes back what it has acknowledged; so this works for a leader, too. A crash in the middle leaves damage,
which is found and mended again.

It is not possible for what was compacted, because replicas compact by themselves and their batches differ,
nor for a partition with one replica, nor above the high watermark. Then the damage stays, and is told. If
others answer, and have other bytes, this replica goes out of service and is filled anew from them: see
damaged_logs.py and partitions.py.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.types import ErrorCode
from penstock.wire.batch import BatchError, iterate_headers
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.broker.damaged_logs import DamagedLogs
    from penstock.broker.metrics import Metrics
    from penstock.broker.partition import Partition
    from penstock.peers.peers import Peers
    from penstock.storage.interface import DamagedRange

log = logging.getLogger(__name__)

FETCH: Final = (1, 12)
ANSWER_S_MAX: Final = 10.0
DAMAGE_BYTES_MAX: Final = 64 << 20
"""More than this at once is no rot but a disk that is gone."""

TRY_AGAIN_S: Final = 60.0
"""After nobody had what is needed, in this form."""


class Repairs:
    def __init__(self, node_id: int, peers: Peers, damaged_logs: DamagedLogs, metrics: Metrics) -> None:
        self._node_id = node_id
        self._peers = peers
        self._damaged_logs = damaged_logs
        self._metrics = metrics
        self._not_before_s: dict[DamagedRange, float] = {}

    async def repair(self, partition: Partition) -> None:
        """All that is known to be damaged, as far as others that are in sync have it."""
        now_s = asyncio.get_running_loop().time()
        self._not_before_s = {each: when for each, when in self._not_before_s.items() if when > now_s}
        for damage in partition.log.damage():
            if damage.size > DAMAGE_BYTES_MAX or damage in self._not_before_s:
                continue
            if await self._mend(partition, damage):
                self._metrics.scrub_repaired += 1
                if not partition.log.damage():
                    self._damaged_logs.forget(partition.log.name)
                log.warning("%s: mended %s", partition.log.name, _place(damage))
            else:
                self._not_before_s[damage] = now_s + TRY_AGAIN_S

    async def _mend(self, partition: Partition, damage: DamagedRange) -> bool:
        image, stored = partition.image, partition.log
        others_differ = False
        for node_id in sorted(image.isr, key=lambda each: each != image.leader):
            if node_id == self._node_id:
                continue
            try:
                data = await self._read(node_id, partition, damage)
            except (PeerError, DecodeError, BatchError) as error:
                log.info("%s: broker %d: %s", stored.name, node_id, error)
                continue
            if stored.closed or stored.mend(damage, data):
                return not stored.closed
            others_differ = True
        is_committed = damage.end_offset <= partition.high_watermark
        if (
            others_differ
            and is_committed
            and not self._damaged_logs.maybe_reason(stored.name, partition.topic_id)
        ):
            await self._damaged_logs.add(stored.name, partition.topic_id, f"{_place(damage)} is damaged")
            log.error(
                "%s: %s cannot be mended, since others have other bytes there: the log is filled anew",
                stored.name, _place(damage),
            )  # fmt: skip
            partition.give_up(f"{_place(damage)} is damaged")
        return False

    async def _read(self, node_id: int, partition: Partition, damage: DamagedRange) -> bytes:
        """As many bytes of whole batches as are damaged here; fewer if that broker has them otherwise."""
        found = bytearray()
        offset = damage.first_offset
        while len(found) < damage.size and offset < partition.high_watermark:
            body = _question(partition, offset, damage.size - len(found))
            answer = await self._peers.ask(node_id, Lane.REPAIRS, *FETCH, body, timeout_s=ANSWER_S_MAX)
            (told,) = answer.responses[0].partitions
            if told.error_code is not ErrorCode.none:
                raise PeerError(f"it answers {told.error_code.name} for offset {offset}")
            before = offset
            view = memoryview(told.records or b"")
            for position, header in iterate_headers(view):
                if len(found) + header.size > damage.size or header.next_offset > partition.high_watermark:
                    return bytes(found)
                found += view[position : position + header.size]
                offset = header.next_offset
            if offset == before:
                break
        return bytes(found)


def _place(damage: DamagedRange) -> str:
    return f"{damage.size} bytes at {damage.position} of {damage.file}, from offset {damage.first_offset} on"


def _question(partition: Partition, offset: int, size: int) -> dict[str, Any]:
    asked = {
        "partition": partition.index,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": size,
    }
    return {
        "replica_id": -1,
        "max_wait": timedelta(0),
        "min_bytes": 0,
        "max_bytes": size,
        "isolation_level": 0,
        "topics": [{"topic": partition.topic, "partitions": [asked]}],
    }
