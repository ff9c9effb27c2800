"""Putting compacted files in the place of the segments they came from, safe against a crash at any step.

Compaction leaves `<base>.log.<run>.cleaned` and `<base>.index.<run>.cleaned`, synced; the run is in the name
so that nobody else, not even the child of a broker that was killed, writes to the same files. The swap first
writes down, in one atomic file, which segments each of them replaces: from then on it will be completed, if
need be by the next start. Every step can be repeated. Without that file, `.cleaned` files of whatever run are
leftovers and are removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.storage.blobs import seal, unseal
from penstock.storage.disk import write_atomically
from penstock.storage.segment import index_path, segment_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.storage.compaction import CompactionResult
    from penstock.storage.disk import Disk

CLEANED_SUFFIX = ".cleaned"
SWAP = "swap"


def cleaned_suffix(run: str) -> str:
    return f".{run}{CLEANED_SUFFIX}"


def announce(disk: Disk, folder: str, result: CompactionResult) -> dict[str, Any]:
    """Write down what is to be done, for `complete`. If it fails, nothing will be."""
    swap = {
        "run": result.plan.run,
        "groups": [[made.base_offset, list(made.sources)] for made in result.segments],
    }
    write_atomically(disk, f"{folder}/{SWAP}", seal(swap))
    return swap


def complete(disk: Disk, folder: str, swap: dict[str, Any]) -> None:
    suffix = cleaned_suffix(swap["run"])
    disk.fsync_dir(folder)
    for base_offset, sources in swap["groups"]:
        log, index = segment_path(folder, base_offset), index_path(folder, base_offset)
        if disk.exists(log + suffix):
            for source in sources:
                disk.unlink_if_there(index_path(folder, source))
            for source in sources[1:]:
                disk.unlink_if_there(segment_path(folder, source))
            disk.rename(log + suffix, log)
        if disk.exists(index + suffix):
            disk.rename(index + suffix, index)
    disk.fsync_dir(folder)
    disk.unlink_if_there(f"{folder}/{SWAP}")
    disk.fsync_dir(folder)


def resume(disk: Disk, folder: str, names: Sequence[str]) -> bool:
    """At the start: complete or clear away what a crash left; whether there was anything."""
    swap = unseal(disk.read_file(f"{folder}/{SWAP}")) if SWAP in names else None
    if swap is not None:
        complete(disk, folder, swap)
    elif SWAP in names:
        disk.unlink(f"{folder}/{SWAP}")
    leftovers = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    for name in leftovers:
        disk.unlink_if_there(f"{folder}/{name}")
    return SWAP in names or bool(leftovers)


def discard(disk: Disk, folder: str, run: str) -> None:
    """Remove what a run left, wherever it stopped. The folder may have gone meanwhile."""
    if not disk.is_folder(folder):
        return
    suffix = cleaned_suffix(run)
    for name in disk.listdir(folder):
        if name.endswith((suffix, f"{suffix}.tmp")):
            disk.unlink_if_there(f"{folder}/{name}")
