"""Compaction of a log in three steps: plan (cheap), run (heavy, anywhere), finish (swap).

`PartitionLog.compaction_plan` says what to do, `run_compaction(plan)` does it without the log, in a thread
or, for files, in another process (see compact.py), and `PartitionLog.finish_compaction(result)` puts the
outcome in place. Only closed segments below the bound take part, so appends go on meanwhile; if retention or
truncation changed them, the result is discarded.

What has been compacted, and when, is kept in the blob `cleaner`. A tombstone stays until a round that saw it,
and removed what it deletes, is `delete_retention_ms` ago.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.storage.blobs import seal, unseal
from penstock.storage.cleaner import KEYS_MAX, AbortedBatches, Cleaning, KeyMap, build_key_map
from penstock.storage.cleaning_files import FileRound, MemoryRound
from penstock.storage.errors import StorageError, os_failure
from penstock.storage.interface import SegmentInfo
from penstock.storage.transactions import AbortedTransaction
from penstock.wire.batch import BatchError
from penstock.wire.compression import CompressionError
from penstock.wire.records import RecordsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.storage.config import LogConfig
    from penstock.storage.interface import LogBackend, Round
    from penstock.storage.producers import ProducerStates

CLEANER = "cleaner"
PASSES_KEPT = 16


class CompactedSegment(NamedTuple):
    base_offset: int
    sources: list[int]
    """Base offsets of the segments whose place it takes."""
    end_offset: int
    """Where the last of these ended, whatever is left of it."""
    size: int
    first_timestamp: int
    max_timestamp: int


@dataclass(slots=True)
class CompactionPlan:
    name: str
    run: str
    """Part of the names of its files: each run has its own."""
    owner: int
    """The process that made the plan; a child that carries it out ends with it."""
    folder: str | None
    batches: list[list[bytes]] | None
    """For logs in memory: the content of the segments."""
    segments: list[SegmentInfo]
    dirty_from: int
    end_offset: int
    tombstones_before: int
    producers: dict[int, int]
    aborted: list[AbortedTransaction]
    segment_bytes: int
    index_interval_bytes: int
    now_ms: int
    keys_max: int = KEYS_MAX
    rounds: Callable[[CompactionPlan], Round] | None = None
    """For logs that are neither in files nor in memory."""

    def groups(self) -> list[list[SegmentInfo]]:
        """Neighbours that fit into one segment together become one."""
        groups: list[list[SegmentInfo]] = []
        size = 0
        for segment in self.segments:
            if not groups or size + segment.size > self.segment_bytes:
                groups.append([])
                size = 0
            groups[-1].append(segment)
            size += segment.size
        return groups

    def to_json(self) -> str:
        if self.folder is None:
            raise ValueError("a log that is not in files is compacted in its own process")
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> CompactionPlan:
        value: dict[str, Any] = json.loads(text)
        value["segments"] = [SegmentInfo(*fields) for fields in value["segments"]]
        value["aborted"] = [AbortedTransaction(*fields) for fields in value["aborted"]]
        value["producers"] = {int(key): offset for key, offset in value["producers"].items()}
        return cls(**value)


@dataclass(slots=True)
class CompactionResult:
    plan: CompactionPlan
    segments: list[CompactedSegment]
    cleaned_to: int
    records_before: int
    records_after: int
    tombstones_after: int
    batches: list[list[bytes]] | None = None

    def to_json(self) -> str:
        return json.dumps(
            {name: getattr(self, name) for name in self.__slots__ if name not in ("plan", "batches")}
        )

    @classmethod
    def from_json(cls, plan: CompactionPlan, text: str) -> CompactionResult:
        value: dict[str, Any] = json.loads(text)
        value["segments"] = [CompactedSegment(*fields) for fields in value["segments"]]
        return cls(plan, **value)


@dataclass(slots=True)
class CleanerState:
    cleaned_to: int = 0
    passes: list[list[int]] = field(default_factory=list)
    """[cleaned to, at what time] of past rounds, ascending in both."""
    tombstones: int = 0
    """How many the last round left."""

    @classmethod
    def load(cls, backend: LogBackend) -> CleanerState:
        value = unseal(backend.get_blob(CLEANER))
        return cls(**value) if value is not None else cls()

    def store(self, backend: LogBackend) -> None:
        backend.put_blob(CLEANER, seal({name: getattr(self, name) for name in self.__slots__}))

    def tombstones_before(self, horizon_ms: int) -> int:
        return max((offset for offset, at_ms in self.passes if at_ms <= horizon_ms), default=0)

    def add_pass(self, cleaned_to: int, now_ms: int, horizon_ms: int) -> None:
        """Passes at or before the horizon count as one; too many young ones are thinned: it only delays."""
        reached = [entry for entry in self.passes if entry[1] <= horizon_ms][-1:]
        young = [entry for entry in self.passes if entry[1] > horizon_ms]
        if len(young) >= PASSES_KEPT:
            young = young[1::2]
        self.passes = [*reached, *young, [cleaned_to, now_ms]]
        self.cleaned_to = cleaned_to


def make_plan(
    name: str,
    backend: LogBackend,
    config: LogConfig,
    producers: ProducerStates,
    log_start_offset: int,
    bound: int,
    now_ms: int,
) -> CompactionPlan | None:
    state = CleanerState.load(backend)
    segments = backend.segments()
    ready: list[SegmentInfo] = []
    end_offset = log_start_offset
    for segment, successor in pairwise(segments):
        young = config.min_compaction_lag_ms and segment.max_timestamp > now_ms - config.min_compaction_lag_ms
        if successor.base_offset > bound or young:
            break
        ready.append(segment)
        end_offset = successor.base_offset
    tombstones_before = state.tombstones_before(now_ms - config.delete_retention_ms)
    dirty_from = max(state.cleaned_to, log_start_offset)
    if not ready or not _is_due(ready, dirty_from, state, tombstones_before, config, now_ms):
        return None
    source = backend.compaction_source(ready)
    return CompactionPlan(
        name=name,
        run=uuid.uuid4().hex,
        owner=os.getpid(),
        folder=source.folder,
        batches=source.batches,
        rounds=source.rounds,
        segments=ready,
        dirty_from=dirty_from,
        end_offset=end_offset,
        tombstones_before=tombstones_before,
        producers=producers.last_offsets(),
        aborted=producers.transactions.aborted_between(0, end_offset),
        segment_bytes=config.segment_bytes,
        index_interval_bytes=config.index_interval_bytes,
        now_ms=now_ms,
    )


def _is_due(
    ready: Sequence[SegmentInfo],
    dirty_from: int,
    state: CleanerState,
    tombstones_before: int,
    config: LogConfig,
    now_ms: int,
) -> bool:
    dirty = [segment for segment in ready if segment.end_offset > dirty_from]
    if not dirty:
        return state.tombstones > 0 and tombstones_before >= state.cleaned_to > 0
    if now_ms - dirty[0].first_timestamp > config.max_compaction_lag_ms:
        return True
    total = sum(segment.size for segment in ready)
    return sum(segment.size for segment in dirty) >= config.min_cleanable_dirty_ratio * total


def _rounds(plan: CompactionPlan) -> Round:
    if plan.rounds is not None:
        return plan.rounds(plan)
    return FileRound(plan.folder, plan) if plan.folder is not None else MemoryRound(plan)


def run_compaction(plan: CompactionPlan) -> CompactionResult:
    """Blocking and heavy; needs nothing but the plan. Raises StorageError and leaves the log as it was."""
    rounds = _rounds(plan)
    try:
        dirty = [segment for segment in plan.segments if segment.end_offset > plan.dirty_from]
        keys = KeyMap(plan.end_offset)
        aborted = AbortedBatches(plan.aborted)
        if dirty:
            kept = aborted.without(rounds.batches(dirty))
            keys = build_key_map(kept, plan.dirty_from, plan.end_offset, plan.keys_max)
        cleaning = Cleaning(keys, plan.tombstones_before, plan.producers, aborted)
        made = []
        for group in plan.groups():
            rounds.begin(group[0].base_offset)
            for header, batch in rounds.batches(group):
                cleaned = cleaning.clean(header, batch)
                if cleaned is not None:
                    rounds.add(cleaned)
            made.append(
                CompactedSegment(
                    group[0].base_offset,
                    [info.base_offset for info in group],
                    *rounds.end(group[-1].end_offset),
                )
            )
    except Exception as error:
        with suppress(OSError):  # the next start removes what is left
            rounds.discard()
        if isinstance(error, OSError):
            raise os_failure("compact", plan.name, error) from error
        if isinstance(error, BatchError | RecordsError | CompressionError):
            raise StorageError(f"cannot compact {plan.name}: {error}") from error
        raise
    finally:
        rounds.close()
    return CompactionResult(
        plan,
        made,
        keys.end,
        cleaning.records_before,
        cleaning.records_after,
        cleaning.tombstones_after,
        rounds.made,
    )


def finish(
    name: str, backend: LogBackend, config: LogConfig, result: CompactionResult, *, changed: bool
) -> list[str]:
    """`changed`: what was written to the segments since the plan was made is not what it saw."""
    plan = result.plan
    present = {(segment.base_offset, segment.size) for segment in backend.segments()[:-1]}
    if changed or any((segment.base_offset, segment.size) not in present for segment in plan.segments):
        backend.discard(plan)
        return [f"{name}: a compaction was dropped, its segments have changed meanwhile"]
    backend.swap(result)
    state = CleanerState.load(backend)
    state.add_pass(result.cleaned_to, plan.now_ms, plan.now_ms - config.delete_retention_ms)
    state.tombstones = result.tombstones_after
    state.store(backend)
    before = sum(segment.size for segment in plan.segments)
    after = sum(segment.size for segment in result.segments)
    gain = f"{result.records_before} records to {result.records_after}, {before} bytes to {after}"
    return [f"{name}: compacted offsets {plan.segments[0].base_offset} to {plan.end_offset - 1}: {gain}"]


def truncated(backend: LogBackend, offset: int) -> None:
    """The log is about to be cut at `offset`: what is written there from then on is not compacted."""
    state = CleanerState.load(backend)
    if state.cleaned_to > offset:
        state.cleaned_to = offset
        state.passes = [[min(cleaned_to, offset), at_ms] for cleaned_to, at_ms in state.passes]
        state.store(backend)
