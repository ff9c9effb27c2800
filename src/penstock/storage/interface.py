"""What a backend must do for a PartitionLog, and no more.

PartitionLog owns everything that is not about where bytes lie: offsets, epochs, producers, ends, the queue
of pending writes, the read-only state. A backend places whole batches, finds them again, and keeps small
named blobs. The log is a row of segments, named by their base offsets; all but the last are closed.

Threads: `write` runs in a writer thread, one call at a time per log, and must leave the backend's visible
state alone; `written` then publishes the same runs on the owner's thread, where all other methods run.
Methods raise OSError or StorageError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.wire.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from penstock.storage.compaction import CompactionPlan, CompactionResult
    from penstock.storage.config import LogConfig
    from penstock.storage.index import Mark
    from penstock.storage.log import PartitionLog
    from penstock.storage.scrubbing import ScrubPiece
    from penstock.wire.batch import BatchHeader, Buffer


class SegmentInfo(NamedTuple):
    """One segment as retention and compaction see it."""

    base_offset: int
    end_offset: int
    """The next offset after its last batch; its base offset while it is empty."""
    size: int
    first_timestamp: int
    max_timestamp: int


class DamagedRange(NamedTuple):
    """Something that was found not to be what was written, and is not handed out."""

    file: str
    position: int
    size: int
    first_offset: int
    end_offset: int
    reason: str


@dataclass(slots=True)
class WriteRun:
    """Consecutive batches for one segment, in the form in which they will be written."""

    segment: int
    """Base offset of the segment they go to."""
    roll: bool = False
    """Close the segment so far and begin this one before anything is written."""
    checkpoint: bool = False
    """Before anything is written, make what the segment holds durable and note how far it is."""
    blobs: list[tuple[str, bytes]] = field(default_factory=list)
    """To be stored at the roll or checkpoint."""
    stale_blobs: list[str] = field(default_factory=list)
    """To be removed after that."""
    buffers: list[Buffer] = field(default_factory=list)
    """Two for each batch: its patched prefix of 16 bytes and the rest as it came."""
    marks: list[Mark] = field(default_factory=list)
    size: int = 0
    end_offset: int = 0
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP


@dataclass(slots=True)
class Loaded:
    """What opening found."""

    clean: bool
    """It was closed cleanly: the newest snapshot is the state at the end."""
    end_offset: int | None
    """The next offset, or None for a log without segments."""
    report: list[str] = field(default_factory=list)


class LogBackend(Protocol):
    is_local: bool
    """A `write` that need not be synced only copies bytes within this machine's memory."""

    def load(self, config: LogConfig) -> Loaded: ...

    def segments(self) -> list[SegmentInfo]: ...

    def write(self, runs: Sequence[WriteRun], blobs: Sequence[tuple[str, bytes]], *, sync: bool) -> None:
        """Store blobs, then runs. On failure, leave nothing of these runs behind if at all possible."""

    def written(self, runs: Sequence[WriteRun]) -> None: ...

    def read(self, offset: int, size_max: int, end_offset: int) -> Buffer:
        """Whole batches of one segment: from the one that holds `offset` (or the next there is), none that
        begins at or after `end_offset`; about `size_max` bytes, but at least one batch. Empty: none."""

    def seek_time(self, timestamp: int) -> int:
        """An offset, not far before the first record at or after the time, from which to look for it."""

    def max_timestamp_before(self, end_offset: int) -> tuple[int, int]:
        """(t, o): t is the largest timestamp before offset o, and o lies not far before `end_offset`."""

    def damage(self) -> list[DamagedRange]:
        """What is known to be damaged by now."""

    def scrub_pieces(self) -> Iterator[ScrubPiece]:
        """What is closed, from the front, for as long as it is there; see scrubbing.py."""

    def confirm(self, piece: ScrubPiece) -> None:
        """Look for damage there, if it is still a part of the log."""

    def mend(self, damage: DamagedRange, data: bytes) -> bool:
        """Replace what is damaged, durably, if these batches fit there. False: they do not, or it is gone."""

    def unmark_clean(self) -> None:
        """What is stored is about to change otherwise than by `write`: what is under way is done first."""

    def truncate(self, offset: int) -> int:
        """Remove the batch that holds `offset` and all after it; the new end of the log."""

    def reset(self, offset: int) -> None:
        """Remove everything; what remains is one empty segment that begins at `offset`."""

    def drop_front(self, count: int) -> None:
        """Remove the first segments, durably. Never the last one."""

    def compaction_source(self, segments: Sequence[SegmentInfo]) -> CompactionSource: ...

    def swap(self, result: CompactionResult) -> None:
        """Put compacted segments in the place of those they came from, all or none after a crash.

        HalfDoneError: from now on files and memory disagree. Any other error: nothing has changed."""

    def discard(self, plan: CompactionPlan) -> None:
        """Remove what a run of the plan left and nobody will put in place."""

    def get_blob(self, name: str) -> bytes | None: ...

    def put_blob(self, name: str, data: bytes) -> None:
        """Durable when it returns."""

    def remove_blobs(self, names: Sequence[str]) -> None:
        """Durable when it returns."""

    def blob_names(self) -> list[str]: ...

    def close(self, *, end_offset: int | None, blobs: Sequence[tuple[str, bytes]] = ()) -> None:
        """With an end offset the close is clean: all is durable and the next `load` needs no scan."""


class CompactionSource(NamedTuple):
    """Where compaction finds its input: a folder of files, batches in memory, one list per segment, or else
    what the backend itself gives it to work with."""

    folder: str | None
    batches: list[list[bytes]] | None
    rounds: Callable[[CompactionPlan], Round] | None = None


class Round(Protocol):
    """Compaction reads all batches of some segments, and puts what stays into others, one after the other."""

    @property
    def made(self) -> list[list[bytes]] | None:
        """What stays, where it is kept in memory."""

    def batches(self, segments: Sequence[SegmentInfo]) -> Iterator[tuple[BatchHeader, memoryview]]: ...

    def begin(self, base_offset: int) -> None: ...

    def add(self, batch: Buffer) -> None: ...

    def end(self, end_offset: int) -> tuple[int, int, int, int]:
        """End offset, size, first and largest timestamp of the segment."""

    def close(self) -> None:
        """It is done, well or not."""

    def discard(self) -> None:
        """The run has failed: leave nothing."""


class Storage(Protocol):
    """All logs of one node."""

    storage_id: UUID
    cluster_id: str
    node_id: int

    def open_log(self, name: str, topic_id: UUID, config: LogConfig, now_ms: int) -> PartitionLog: ...

    def logs(self) -> list[tuple[str, UUID]]:
        """The logs that exist, open or not."""

    def delete_log(self, name: str) -> None: ...

    def set_aside(self, name: str) -> str:
        """Keep a log that is not open under another name, for somebody to look at; where that is."""

    def set_cluster_id(self, cluster_id: str) -> None:
        """Recorded once the node knows its cluster."""

    def get_note(self, name: str) -> Any:
        """Something small that the node wrote down; None if there is nothing or it is damaged."""

    def put_note(self, name: str, note: Any) -> None:
        """Durable when it returns. Any thread."""

    def stopping(self) -> None:
        """The node is about to stop: from now on nothing waits long for what may never come back."""

    def close(self) -> None:
        """Close every open log cleanly, then the storage itself."""
