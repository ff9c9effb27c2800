"""What is done to the files of segments other than reading and appending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.disk import write_atomically
from penstock.storage.index import encode_index
from penstock.storage.recovery import recover
from penstock.storage.segment import index_path, read_index_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.storage.config import LogConfig
    from penstock.storage.index import StoredIndex
    from penstock.storage.index_cache import IndexCache
    from penstock.storage.segment import Segment


def write_index(segment: Segment) -> None:
    """Vouch for the whole segment, which must be on disk."""
    data = encode_index(segment.stored_index(segment.load_index()))
    write_atomically(segment.descriptors.disk, index_path(segment.folder, segment.base_offset), data)


def cut(segment: Segment, position: int) -> None:
    descriptors = segment.descriptors
    file = descriptors.pin(segment.path)
    try:
        descriptors.disk.ftruncate(file.fd, position)
        descriptors.disk.fdatasync(file.fd)
    finally:
        descriptors.unpin(file)


def release(indexes: IndexCache, segments: Sequence[Segment]) -> None:
    """Give back what the segments hold in memory and open files."""
    for segment in segments:
        indexes.forget(segment)
        indexes.descriptors.forget(segment.path)


def remove(indexes: IndexCache, segments: Sequence[Segment]) -> None:
    """Durable once the folder is synced."""
    release(indexes, segments)
    for segment in segments:
        segment.descriptors.disk.unlink_if_there(index_path(segment.folder, segment.base_offset))
        segment.descriptors.disk.unlink_if_there(segment.path)


def recover_all(
    indexes: IndexCache, segments: list[Segment], sizes: Sequence[int], config: LogConfig, cleaned_to: int
) -> list[str]:
    """After an unclean stop: describe every segment, cut what must be cut; what was done. See recovery.py.

    Offsets before `cleaned_to` may be missing, for the log has been compacted up to there.
    """
    disk = indexes.descriptors.disk
    report: list[str] = []
    for at, (segment, size) in enumerate(zip(list(segments), sizes, strict=True)):
        stored = read_index_file(disk, index_path(segment.folder, segment.base_offset))
        if stored is not None and stored.base_offset != segment.base_offset:
            stored = None
        successor = segments[at + 1].base_offset if at + 1 < len(segments) else None
        if stored is not None and _is_whole(stored, size, successor):
            segment.describe(stored)
            segment.index = None
            continue
        recovered = recover(
            segment.pread, segment.path, segment.base_offset, size, stored, config, successor, cleaned_to
        )
        segment.describe(recovered.stored)
        segment.damage = recovered.damage
        segment.checked.add(recovered.scanned_from, segment.size)
        report += recovered.report
        if recovered.ends_log:
            report += _remove_behind(indexes, segments, at + 1)
        _make_durable(segment, size)
        if recovered.ends_log:
            break
    if segments:
        disk.fsync_dir(segments[0].folder)  # no older index may come back once the segments have grown
    return report


def _is_whole(stored: StoredIndex, size: int, successor: int | None) -> bool:
    """Whether the index vouches for a closed segment up to where the next one begins."""
    return successor is not None and stored.covered == size and stored.end_offset >= successor


def _remove_behind(indexes: IndexCache, segments: list[Segment], first: int) -> list[str]:
    """Before the segment in front of them is cut and vouched for: then a gap would look intended."""
    behind = segments[first:]
    disk = indexes.descriptors.disk
    lines = [
        f"{segment.path}: removed with {disk.size(segment.path)} bytes, for the log ends before it"
        for segment in behind
    ]
    remove(indexes, behind[::-1])
    del segments[first:]
    disk.fsync_dir(segments[0].folder)
    return lines


def _make_durable(segment: Segment, size: int) -> None:
    """What was read may be in the page cache alone; from now on it counts as being on disk."""
    if segment.size < size:
        cut(segment, segment.size)
    else:
        segment.descriptors.sync(segment.path)
    if not segment.damage:
        write_index(segment)
