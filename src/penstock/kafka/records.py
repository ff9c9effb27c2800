"""What readers of a log get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.wire.compression import CompressionError
    from penstock.wire.records import RecordsError

Headers = tuple[tuple[str, bytes | None], ...]


class ReadRecord(NamedTuple):
    """A tuple rather than a dataclass: one is made for each record read, in half the time."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, about."""
        return RECORD_OVERHEAD + len(self.key or b"") + len(self.value or b"")


RECORD_OVERHEAD = 200


@dataclass(frozen=True, slots=True)
class Offsets:
    start: int
    end: int
    """The last stable offset: what lies before it is committed and will stay."""


class Undecodable(NamedTuple):
    """A batch that is stored as it was sent, and holds no records that anybody could read."""

    offset: int
    reason: RecordsError | CompressionError


@dataclass(slots=True)
class Fetched:
    records: list[ReadRecord]
    next_offset: int
    """Where to go on. It passes over what is not for readers: control batches, aborted transactions, gaps."""
    high_watermark: int
    """The last stable offset, as in `Offsets.end`."""
    log_start_offset: int
    undecodable: list[Undecodable] = field(default_factory=list)
    """Batches that were passed over."""
