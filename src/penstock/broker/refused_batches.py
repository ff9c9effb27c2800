"""Batches of idempotent producers that were refused for a reason that passes, and have not come again. Pure.

A producer has several batches on their way. If the first is refused because this broker does not lead yet,
or has not opened the partition yet, and the second comes when it has, the second is out of order, or looks
like the beginning of a producer that nobody knows. So it is when the first was refused because its topic is
not known here yet, its log fails, or the coordinator of its transaction did not answer. Both harm: librdkafka
answers an `out_of_order_sequence_number` with a new epoch for all its partitions, and what was written
elsewhere without an answer is written there again. So a batch behind a refused one is refused for the same
reason, until that one comes. The producer sends both again, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.storage.producers import SEQUENCE_MASK
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.wire.batch import BatchHeader

PASSING: Final = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.not_enough_replicas,
    ErrorCode.unknown_topic_or_partition,  # this broker has not heard of it yet
    ErrorCode.kafka_storage_error,
)
"""Errors after which clients send the batch again. After others they may not, and nobody must wait for it."""
KEPT_MS: Final = 5_000
"""Batches sent together arrive within this window; later ones are unrelated."""
KEPT_MAX: Final = 10_000

Place = tuple[str, int]
"""Topic and partition, which need not be open yet."""


class _Refused(NamedTuple):
    epoch: int
    first: int
    last: int
    """The sequences that the first and the last of them begin with."""
    code: ErrorCode
    at_ms: int


class RefusedBatches:
    """Times are of a clock that only goes forward."""

    def __init__(self) -> None:
        self._found: dict[tuple[Place, int], _Refused] = {}
        """The newest last."""

    def __len__(self) -> int:
        return len(self._found)

    def is_empty(self, now_ms: int) -> bool:
        """Whether no batch can be behind a refused one. Nearly always so, and asked for every batch."""
        while self._found:
            oldest = next(iter(self._found))
            if now_ms - self._found[oldest].at_ms < KEPT_MS:
                return False
            del self._found[oldest]
        return True

    def refused(self, place: Place, header: BatchHeader, code: ErrorCode, now_ms: int) -> None:
        if code not in PASSING or not header.is_idempotent:
            return
        first = last = header.base_sequence
        before = self._current(place, header, now_ms)
        if before is not None:
            first = first if _is_before(first, before.first) else before.first
            last = last if _is_before(before.last, last) else before.last
        key = place, header.producer_id
        self._found.pop(key, None)  # so that it becomes the newest
        self._found[key] = _Refused(header.producer_epoch, first, last, code, now_ms)
        if len(self._found) > KEPT_MAX:
            del self._found[next(iter(self._found))]

    def blocking(
        self, place: Place, header: BatchHeader, next_sequence: int | None, now_ms: int
    ) -> ErrorCode | None:
        """Why the batch must wait for one before it; None if it need not.

        `next_sequence` is what the log expects of this producer and epoch, None if it knows neither.
        """
        found = self._current(place, header, now_ms)
        if found is None:
            return None
        missing = found.first if next_sequence is None else next_sequence
        is_refused = not _is_before(missing, found.first) and not _is_before(found.last, missing)
        return found.code if is_refused and _is_before(missing, header.base_sequence) else None

    def accepted(self, place: Place, header: BatchHeader) -> None:
        """What was refused has come again, or was written by another leader meanwhile."""
        self._found.pop((place, header.producer_id), None)

    def _current(self, place: Place, header: BatchHeader, now_ms: int) -> _Refused | None:
        found = self._found.get((place, header.producer_id))
        is_current = (
            found is not None and found.epoch == header.producer_epoch and now_ms - found.at_ms < KEPT_MS
        )
        return found if is_current else None


def _is_before(sequence: int, other: int) -> bool:
    """Sequences wrap around."""
    return 0 < (other - sequence) & SEQUENCE_MASK < SEQUENCE_MASK // 2
