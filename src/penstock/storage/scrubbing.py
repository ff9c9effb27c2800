"""Reading closed segments again, piece by piece, to find what rotted since they were written.

The log's owner hands out pieces; another thread reads and checks each; the owner confirms what that thread
suspects, because the segment may have been replaced or cut meanwhile. Nothing is held in between.

With the CRCs it computes a digest of the bytes, for replicas to compare: see broker/agreement.py.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from penstock.storage.errors import RotError
from penstock.storage.rot import check_batches

if TYPE_CHECKING:
    from penstock.storage.checked_bytes import CheckedBytes
    from penstock.storage.rot import Stretch
    from penstock.wire.batch import Buffer

PIECE_BYTES = 1 << 20
"""About as much is read at once; a block of the index that is larger is read as a whole."""


class ScrubPiece(NamedTuple):
    segment: CheckedBytes
    stretch: Stretch

    @property
    def size(self) -> int:
        return self.stretch.end - self.stretch.start

    def maybe_digest(self) -> bytes | None:
        """Of what the disk gives back; None if that is not what was written.

        Any thread; OSError as reading raises it.
        """
        stretch = self.stretch
        data = self.segment.descriptors.pread_uncached(self.segment.path, self.size, stretch.start)
        end, next_offset = check_batches(memoryview(data), stretch.first_offset)
        if end != self.size or next_offset > stretch.end_offset:
            return None
        return blake2b(data).digest()


class RangeDigest:
    """The same digest of batches that are read in several parts. Any thread; RotError if one is not good.

    They have to fill the range: a base offset is not in the CRC, and only its neighbours show a wrong one.
    """

    def __init__(self, first_offset: int, end_offset: int) -> None:
        self.next_offset = first_offset
        self._end_offset = end_offset
        self._hash = blake2b()

    def add(self, batches: Buffer) -> None:
        due = self.next_offset
        end, self.next_offset = check_batches(memoryview(batches), due)
        if end != len(batches):
            raise RotError(f"what follows offset {due} is damaged")
        self._hash.update(batches)

    def digest(self) -> bytes:
        if self.next_offset != self._end_offset:
            raise RotError(f"batches end at offset {self.next_offset} where {self._end_offset} is due")
        return self._hash.digest()
