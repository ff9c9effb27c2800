"""Batches and logs for the tests of storage."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.storage import LogConfig
from penstock.wire.batch import read_header
from penstock.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.storage import PartitionLog

TOPIC_ID = UUID(int=7)
NOW_MS = 1_700_000_000_000
ALL = 1 << 62


def batch(
    values: Sequence[bytes | None] = (b"v",),
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = NOW_MS,
    timestamps: Sequence[int] | None = None,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    records = [
        Record(at, timestamps[at] if timestamps else timestamp, keys[at] if keys else None, value)
        for at, value in enumerate(values)
    ]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def append(log: PartitionLog, data: bytes, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> int:
    return log.append(data, read_header(data), leader_epoch=leader_epoch, now_ms=now_ms)


def append_flushed(log: PartitionLog, data: bytes, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> int:
    offset = append(log, data, leader_epoch=leader_epoch, now_ms=now_ms)
    log.flush()
    if log.error is not None:
        raise log.error
    return offset


def small_config(**changes: object) -> LogConfig:
    """Many segments and index entries even with little data."""
    values: dict[str, object] = {"segment_bytes": 1000, "index_interval_bytes": 150, **changes}
    return LogConfig(**values)  # type: ignore[arg-type]


def open_in(folder: Path) -> list[str]:
    """The files in a folder that this process has open. Others may belong to other threads."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [each for each in found if each.startswith(f"{folder}/")]
