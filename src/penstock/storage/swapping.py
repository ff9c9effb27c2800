"""Putting compacted files in the place of the segments they came from, safe against a crash at any step.

Compaction leaves `<base>.log.cleaned` and `<base>.index.cleaned`, synced. The swap first writes down, in one
atomic file, which segments each of them replaces: from then on it will be completed, if need be by the next
start. Every step can be repeated. Without that file, `.cleaned` files are leftovers and are removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.storage.blobs import seal, unseal
from penstock.storage.disk import write_atomically
from penstock.storage.segment import index_path, segment_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.storage.compaction import CompactionResult
    from penstock.storage.disk import Disk

CLEANED_SUFFIX = ".cleaned"
SWAP = "swap"


def swap(disk: Disk, folder: str, result: CompactionResult) -> None:
    groups = [[made.base_offset, list(made.sources)] for made in result.segments]
    write_atomically(disk, f"{folder}/{SWAP}", seal(groups))
    disk.fsync_dir(folder)
    _complete(disk, folder, groups)


def resume(disk: Disk, folder: str, names: Sequence[str]) -> bool:
    """At the start: complete or clear away what a crash left; whether there was anything."""
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    if SWAP in names:
        groups = unseal(disk.read_file(f"{folder}/{SWAP}"))
        if groups is not None:
            _complete(disk, folder, groups)
            return True
        disk.unlink(f"{folder}/{SWAP}")
    for name in cleaned:
        disk.unlink_if_there(f"{folder}/{name}")
    return bool(cleaned)


def discard(disk: Disk, folder: str, base_offsets: Sequence[int]) -> None:
    for base_offset in base_offsets:
        disk.unlink_if_there(segment_path(folder, base_offset) + CLEANED_SUFFIX)
        disk.unlink_if_there(index_path(folder, base_offset) + CLEANED_SUFFIX)


def _complete(disk: Disk, folder: str, groups: Sequence[Sequence[object]]) -> None:
    for group in groups:
        base_offset, sources = group
        assert isinstance(base_offset, int)
        assert isinstance(sources, list)
        cleaned = segment_path(folder, base_offset) + CLEANED_SUFFIX
        if disk.exists(cleaned):
            for source in sources:
                disk.unlink_if_there(index_path(folder, source))
            for source in sources[1:]:
                disk.unlink_if_there(segment_path(folder, source))
            disk.rename(cleaned, segment_path(folder, base_offset))
        if disk.exists(index_path(folder, base_offset) + CLEANED_SUFFIX):
            disk.rename(index_path(folder, base_offset) + CLEANED_SUFFIX, index_path(folder, base_offset))
    disk.fsync_dir(folder)
    disk.unlink_if_there(f"{folder}/{SWAP}")
    disk.fsync_dir(folder)
