"""The bytes of a segment, checked when this process reads them for the first time.

They are checked in blocks from one index entry to another, so that the index says which offsets belong there,
and remembered as good (checked.py), as is what this process wrote. What is damaged (rot.py) is remembered
too, and never handed out.

Only files need this. PostgreSQL checks its own pages (`data_checksums`), and memory is lost before it rots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.checked import CheckedRanges
from penstock.storage.disk import write_all
from penstock.storage.errors import RotError, StorageError
from penstock.storage.index import Extent
from penstock.storage.rot import Damage, Stretch, check_batches, find_damage
from penstock.wire.batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, MAGIC_POSITION

if TYPE_CHECKING:
    from penstock.storage.descriptors import Descriptors
    from penstock.storage.index import SparseIndex
    from penstock.wire.batch import Buffer

MORE_BYTES_MAX = 1 << 20
"""Read at either side of what is asked for, so as to check whole blocks. Where index entries are further
apart, a first read checks the CRCs of what it reads, and the order of offsets only within it."""

FIRST_READ_BYTES_MAX = 4 << 20
"""Checked by one read, which nothing else may wait long for; with tiny batches it takes 10 ms."""


class CheckedBytes(Extent):
    __slots__ = ("checked", "damage", "descriptors", "path")

    def __init__(self, descriptors: Descriptors, path: str, base_offset: int) -> None:
        super().__init__(base_offset)
        self.descriptors = descriptors
        self.path = path
        self.checked = CheckedRanges()
        """Good, or else a part of `damage`."""
        self.damage: list[Damage] = []
        """What is not handed out, ascending."""

    def load_index(self) -> SparseIndex:
        raise NotImplementedError

    def pread(self, size: int, position: int) -> bytes:
        return self.descriptors.pread(self.path, size, position)

    def read_checked(self, start: int, stop: int) -> Buffer:
        """Bytes from the batch at `start` up to `stop`, or to where damage begins. RotError: it is here."""
        piece, piece_start = self._check(start, stop)
        for damage in self.damage:
            if damage.start <= start < damage.end:
                raise self.rotten(damage)
            if start < damage.start:
                stop = min(stop, damage.start)
                break
        data: Buffer
        if piece is None:
            data = self.pread(stop - start, start)
        else:
            data = memoryview(piece)[start - piece_start : stop - piece_start]
        if len(data) < stop - start:
            raise self.bad(start + len(data), "the file ends before its batches do")
        return data

    def end_of_read(self, start: int, stop: int) -> int:
        """Where a read to `stop` had better end: it need not check very much at once."""
        return min(stop, self.checked.end_of(start) + FIRST_READ_BYTES_MAX)

    def damage_at(self, position: int) -> Damage | None:
        self._check(position, position + 1)
        return next((each for each in self.damage if each.start <= position < each.end), None)

    def _check(self, start: int, stop: int) -> tuple[bytes | None, int]:
        """Check what was never read of these bytes; what was read for that, and from where on."""
        good_to = self.checked.end_of(start)
        if good_to >= stop:
            return None, start
        block = self._block(good_to, stop)
        first, end, first_offset = block.start, block.end, block.first_offset
        if good_to - first > MORE_BYTES_MAX:
            first, first_offset = good_to, self.base_offset
        if end - stop > MORE_BYTES_MAX:
            end = stop
        piece_start = min(start, first)
        piece = self.pread(end - piece_start, piece_start)
        size, next_offset = check_batches(memoryview(piece)[first - piece_start :], first_offset)
        if next_offset <= block.end_offset and (
            first + size == end or (end < block.end and _begins_a_batch(piece[first + size - piece_start :]))
        ):
            self.checked.add(first, first + size)
        else:
            self.note(block, find_damage(self.pread(block.end - block.start, block.start), block))
        return piece, piece_start

    def piece_at(self, position: int, size: int) -> Stretch:
        """Whole blocks from there on, together about `size` bytes; there is something."""
        return self._block(position, min(position + size, self.size))

    def confirm(self, stretch: Stretch) -> None:
        """Look for damage once more, in what the segment holds now."""
        block = self._block(stretch.start, min(stretch.end, self.size))
        self.note(block, find_damage(self.pread(block.end - block.start, block.start), block))

    def mend(self, position: int, data: bytes) -> bool:
        """Write batches over the damage that begins there, if they are sound, due there and fill it."""
        damage = next((each for each in self.damage if each.start == position), None)
        if damage is None or len(data) != damage.end - damage.start:
            return False
        end, next_offset = check_batches(memoryview(data), damage.first_offset)
        if end < len(data) or next_offset > damage.end_offset:
            return False
        file = self.descriptors.pin(self.path)
        try:
            write_all(self.descriptors.disk, file.fd, [data], position)
            self.descriptors.disk.fdatasync(file.fd)
        finally:
            self.descriptors.unpin(file)
        self.confirm(Stretch(damage.start, damage.end, damage.first_offset, damage.end_offset))
        return all(each.end <= damage.start or damage.end <= each.start for each in self.damage)

    def _block(self, start: int, stop: int) -> Stretch:
        """The blocks around these bytes."""
        index = self.load_index()
        first, last = index.floor_position(start), index.ceiling_position(stop)
        return Stretch(
            first.position if first else 0,
            last.position if last else self.size,
            first.offset if first else self.base_offset,
            last.offset if last else self.end_offset,
        )

    def note(self, stretch: Stretch, damage: list[Damage]) -> None:
        """The stretch has been checked, and this was found."""
        before = [each._replace(end=min(each.end, stretch.start)) for each in self.damage]
        behind = [each._replace(start=max(each.start, stretch.end)) for each in self.damage]
        kept = {each for each in (*before, *behind) if each.start < each.end}
        self.damage = sorted([*kept, *damage])
        self.checked.add(stretch.start, stretch.end)

    def add_damage(self, damage: list[Damage]) -> None:
        """Something was found on the way; that the rest is good has yet to be seen."""
        news = [
            each
            for each in damage
            if all(each.end <= known.start or known.end <= each.start for known in self.damage)
        ]
        self.damage = sorted([*self.damage, *news])

    def note_all(self, reason: str) -> None:
        """Nothing of it is to be handed out any more."""
        whole = Stretch(0, self.size, self.base_offset, self.end_offset)
        self.note(whole, [Damage(*whole, reason)])

    def forget_from(self, position: int) -> None:
        """What comes from there on is another thing from now on."""
        self.checked.truncate(position)
        self.damage = [
            each._replace(end=min(each.end, position)) for each in self.damage if each.start < position
        ]

    def rotten(self, damage: Damage) -> RotError:
        return RotError(
            f"{self.path} is damaged at byte {damage.start} ({damage.reason}): "
            f"{damage.end - damage.start} bytes from offset {damage.first_offset} on are not served"
        )

    def bad(self, position: int, reason: str) -> StorageError:
        return StorageError(f"{self.path} is damaged at byte {position}: {reason}")


def _begins_a_batch(rest: bytes) -> bool:
    """Whether this can be the part of a batch whose end was not read."""
    if len(rest) < HEADER_SIZE:
        return True
    size = LENGTH_PREFIX_SIZE + int.from_bytes(rest[8:12], signed=True)
    return rest[MAGIC_POSITION] == 2 and size > len(rest)
