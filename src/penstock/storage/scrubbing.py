"""Reading closed segments again, piece by piece, to find what rotted since they were written.

The log's owner hands out pieces; another thread reads and checks each; the owner confirms what that thread
suspects, because the segment may have been replaced or cut meanwhile. Nothing is held in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.storage.rot import check_batches

if TYPE_CHECKING:
    from penstock.storage.checked_bytes import CheckedBytes
    from penstock.storage.rot import Stretch

PIECE_BYTES = 1 << 20
"""About as much is read at once; a block of the index that is larger is read as a whole."""


class ScrubPiece(NamedTuple):
    segment: CheckedBytes
    stretch: Stretch

    @property
    def size(self) -> int:
        return self.stretch.end - self.stretch.start

    def is_good(self) -> bool:
        """Whether the disk gives back what was written. Any thread; OSError as reading raises it."""
        stretch = self.stretch
        data = self.segment.descriptors.pread_uncached(self.segment.path, self.size, stretch.start)
        end, next_offset = check_batches(memoryview(data), stretch.first_offset)
        return end == self.size and next_offset <= stretch.end_offset
