"""What a reader comes to next: only poison at the very front may be passed over."""

from __future__ import annotations

import pytest

from penstock.kafka.committed import Aborted, open_fetched
from penstock.kafka.front import Front, front_of
from penstock.wire import compression
from penstock.wire.batch import TRANSACTIONAL
from penstock.wire.records import Record, encode_batch
from tests.support.raw import POISON, poison_batch

TOO_LARGE = compression.compress(compression.ZSTD, bytes(compression.DECOMPRESSED_SIZE_MAX + 1))
CLAIMED = b"\xff\xff\xff\xff\x0fno snappy"
"""Snappy begins with the size of what it unpacks to."""


def placed(offset: int, batch: bytes) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def good(offset: int, **options: int) -> bytes:
    return encode_batch([Record(offset, 5, None, b"good")], **options)


def offsets(front: Front) -> tuple[list[int], int]:
    return [batch.offset for batch in front.poison], front.next_offset


def front(offset: int, *batches: bytes, told: int | None = None, aborted: tuple[Aborted, ...] = ()) -> Front:
    return front_of(open_fetched(0, offset, b"".join(batches), aborted, end=9, log_start=0), told)


@pytest.mark.parametrize("kind", POISON)
def test_poison_at_the_front(kind: str) -> None:
    """Everything that librdkafka stops at."""
    batch = placed(1, POISON[kind])
    end = 3 if "good record" in kind else 2
    assert offsets(front(1, batch)) == ([1], end)
    assert offsets(front(end - 1, batch, good(end))) == ([1], end)


def test_poison_behind_something_to_read_is_left_alone() -> None:
    assert offsets(front(0, good(0), placed(1, poison_batch()))) == ([], 0)


def test_poison_in_a_row_up_to_the_next_record() -> None:
    batches = [placed(offset, poison_batch()) for offset in (1, 2, 4)]
    assert offsets(front(1, *batches[:2], good(3), batches[2])) == ([1, 2], 3)
    assert offsets(front(1, *batches[:2])) == ([1, 2], 3)


def test_poison_behind_an_aborted_transaction() -> None:
    aborted = good(1, producer_id=7, attributes=TRANSACTIONAL)
    assert offsets(front(1, aborted, placed(2, poison_batch()), aborted=(Aborted(1, 7),))) == ([2], 3)
    assert offsets(front(1, aborted, aborted=(Aborted(1, 7),))) == ([], 2)
    assert offsets(front(1)) == ([], 1)


@pytest.mark.parametrize(
    ("body", "codec"), [(TOO_LARGE, compression.ZSTD), (CLAIMED, compression.SNAPPY)], ids=["is", "says so"]
)
def test_what_is_too_large_to_unpack_is_poison_only_if_somebody_says_so(body: bytes, codec: int) -> None:
    batch = placed(1, poison_batch(body, codec=codec))
    assert offsets(front(1, batch, good(2))) == ([], 1)
    assert offsets(front(1, batch, good(2), told=1)) == ([1], 2)
    assert offsets(front(0, placed(0, batch), batch, told=1)) == ([], 0)
