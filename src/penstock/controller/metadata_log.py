"""This node's copy of the metadata log: batches of metadata records, each applied as a whole or not at all.

What the quorum writes for itself (who leads, who votes) are records like the others. What it must not forget
apart from the log, its epoch and its vote, lies beside it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from penstock.metadata.internal_topics import METADATA_TOPIC
from penstock.metadata.records import (
    BootstrappedRecord,
    LeaderChangeRecord,
    MetadataRecordError,
    VotersRecord,
    decode,
    encode,
)
from penstock.quorum.messages import (
    Bootstrapped,
    ControlEntry,
    ElectionState,
    LeaderChange,
    VotersChange,
)
from penstock.quorum.voters import Voter, VoterSet
from penstock.replication.divergence import LogEnd
from penstock.storage.blobs import seal, unseal
from penstock.storage.config import MIB, Flush, LogConfig
from penstock.storage.errors import StorageError
from penstock.wire import compression
from penstock.wire.batch import read_header
from penstock.wire.compression import CompressionError
from penstock.wire.records import Record, RecordsError, decode_records, encode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.metadata.records import MetadataRecord
    from penstock.storage.interface import Storage
    from penstock.wire.batch import Buffer

METADATA_LOG: Final = f"{METADATA_TOPIC}-0"
METADATA_TOPIC_ID: Final = UUID(int=1)
ELECTION_STATE: Final = "quorum-state"
SNAPSHOT: Final = "snapshot"
HIGH_WATERMARK: Final = "high-watermark"
COMPRESSED_FROM_BYTES: Final = 4096
"""Batches of many records are much alike: a thousand leader epochs shrink to a few kilobytes."""
FETCH_BYTES_MAX: Final = 8 * MIB
SEGMENT_BYTES: Final = 8 * MIB
"""What a snapshot makes superfluous goes segment by segment."""


class MetadataBatch(NamedTuple):
    base_offset: int
    epoch: int
    timestamp_ms: int
    records: list[MetadataRecord]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the log up to `end` adds up to, so that it need not be kept."""

    end: LogEnd
    voters: VoterSet
    records: list[MetadataRecord]


class MetadataLog:
    def __init__(self, storage: Storage, *, now_ms: int) -> None:
        # Nothing may ever go missing from it, and what was answered was on disk, whatever a node's flush is.
        config = LogConfig(flush=Flush.COMMIT, delete=False, retention_ms=-1, segment_bytes=SEGMENT_BYTES)
        self.log = storage.open_log(METADATA_LOG, METADATA_TOPIC_ID, config, now_ms)
        found = self.log.get_note(SNAPSHOT)
        self.snapshot = None if found is None else read_snapshot(found)
        if self.snapshot is not None and self.log.log_end_offset < self.snapshot.end.end_offset:
            self.load_snapshot(self.snapshot)  # a crash came between the two steps of loading it
        if self.snapshot is None and self.log.log_start_offset > 0:
            raise StorageError(f"{METADATA_LOG} begins at {self.log.log_start_offset}, and has no snapshot")

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def replay_offset(self) -> int:
        """Where the log goes on after the snapshot."""
        return self.snapshot.end.end_offset if self.snapshot else 0

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the snapshot; the log before the one that was kept so far goes."""
        earlier = self.replay_offset
        self.log.put_note(SNAPSHOT, write_snapshot(snapshot))
        self.snapshot = snapshot
        self.log.delete_records_before(min(earlier, self.log.flushed_end_offset))

    def load_snapshot(self, snapshot: Snapshot) -> None:
        """The leader's log begins later than ours ends: go on from its snapshot."""
        self.log.put_note(SNAPSHOT, write_snapshot(snapshot))
        self.snapshot = snapshot
        self.log.restart_at(snapshot.end.end_offset)
        self.log.begin_epoch(snapshot.end.last_epoch)

    def snapshot_bytes(self) -> bytes:
        assert self.snapshot is not None
        return seal(write_snapshot(self.snapshot))

    def batches(self, offset: int, end_offset: int) -> Iterator[MetadataBatch]:
        for header, batch in self.log.batches(offset, end_offset):
            try:
                records = [decode(record.value) for record in decode_records(batch, header)]
            except (MetadataRecordError, RecordsError, CompressionError) as error:
                raise StorageError(
                    f"the metadata log {METADATA_LOG} is damaged or too new"
                    f" (batch at offset {header.base_offset}): {error}"
                ) from error
            yield MetadataBatch(
                header.base_offset, header.partition_leader_epoch, header.max_timestamp, records
            )

    def control_entries(self, offset: int, end_offset: int) -> Iterator[tuple[int, ControlEntry]]:
        """What the quorum itself wrote, with the offset of each."""
        for batch in self.batches(offset, end_offset):
            for place, record in enumerate(batch.records):
                entry = maybe_entry(record)
                if entry is not None:
                    yield batch.base_offset + place, entry

    def append(self, records: Sequence[MetadataRecord], *, epoch: int, now_ms: int) -> int:
        """Queue one batch; its base offset. It counts after `flush`."""
        values = [encode(record) for record in records]
        size = sum(map(len, values))
        codec = compression.ZSTD if size >= COMPRESSED_FROM_BYTES else compression.NONE
        batch = encode_batch(
            [Record(offset, now_ms, None, value) for offset, value in enumerate(values)], codec=codec
        )
        return self.log.append(batch, read_header(batch), leader_epoch=epoch, now_ms=now_ms)

    def append_fetched(self, records: Buffer, *, now_ms: int) -> None:
        self.log.append_fetched(records, now_ms=now_ms)

    def read(self, offset: int) -> Buffer:
        return self.log.read(offset, FETCH_BYTES_MAX, end_offset=self.log.flushed_end_offset)

    def truncate(self, offset: int) -> None:
        self.log.truncate_to(offset)

    async def flush(self) -> None:
        """All that is queued is on disk when it returns; raises StorageError if it cannot be."""
        loop = asyncio.get_running_loop()
        while (job := self.log.take_flush()) is not None:
            await loop.run_in_executor(None, job.run)
            self.log.finish_flush(job)
        if self.log.error is not None:
            raise self.log.error

    # The election state

    def load_state(self) -> ElectionState:
        found = self.log.get_note(ELECTION_STATE)
        if found is None:
            return ElectionState()
        try:
            voted_for = found["voted_for"]
            return ElectionState(
                found["epoch"],
                Voter(voted_for["node_id"], UUID(voted_for["storage_id"])) if voted_for else None,
                found["leader_id"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # A node that forgot its vote might vote twice in one epoch.
            raise StorageError(f"{ELECTION_STATE} of {METADATA_LOG} is damaged or too new") from error

    def store_state(self, state: ElectionState) -> None:
        voted_for = state.voted_for
        self.log.put_note(
            ELECTION_STATE,
            {
                "epoch": state.epoch,
                "voted_for": voted_for
                and {"node_id": voted_for.node_id, "storage_id": str(voted_for.storage_id)},
                "leader_id": state.leader_id,
            },
        )

    # What is committed, as far as this node knew

    def noted_high_watermark(self) -> int:
        """Not more than the log holds: a note that says more is no reason not to take it again."""
        found = self.log.get_note(HIGH_WATERMARK)
        return min(found, self.log.log_end_offset) if type(found) is int else 0

    def note_high_watermark(self, offset: int) -> None:
        self.log.put_note(HIGH_WATERMARK, offset)

    def close(self) -> None:
        self.log.close()


def write_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "epoch": snapshot.end.last_epoch,
        "end_offset": snapshot.end.end_offset,
        "voters": [[node_id, str(storage_id or "")] for node_id, storage_id in snapshot.voters.seats.items()],
        "given_up": sorted(snapshot.voters.given_up),
        "records": [encode(record).decode() for record in snapshot.records],
    }


def read_snapshot(found: Any) -> Snapshot:
    try:
        return Snapshot(
            LogEnd(found["epoch"], found["end_offset"]),
            VoterSet(
                {node_id: UUID(text) if text else None for node_id, text in found["voters"]},
                frozenset(found.get("given_up", ())),  # not in what version 0.1 wrote
            ),
            [decode(text.encode()) for text in found["records"]],
        )
    except (MetadataRecordError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"the snapshot of {METADATA_LOG} is damaged or too new: {error}") from error


def unpack_snapshot(data: bytes) -> Snapshot:
    """From what `snapshot_bytes` gave, on another node."""
    found = unseal(data)
    if found is None:
        raise StorageError("a snapshot of the metadata arrived damaged")
    return read_snapshot(found)


def maybe_entry(record: MetadataRecord) -> ControlEntry | None:
    match record:
        case LeaderChangeRecord(leader_id):
            return LeaderChange(leader_id)
        case VotersRecord(node_ids, storage_ids, given_up):
            seats = {
                node: UUID(text) if text else None for node, text in zip(node_ids, storage_ids, strict=True)
            }
            return VotersChange(VoterSet(seats, frozenset(given_up or ())))
        case BootstrappedRecord():
            return Bootstrapped()
        case _:
            return None


def record_of(entry: ControlEntry) -> MetadataRecord:
    match entry:
        case LeaderChange(leader_id):
            return LeaderChangeRecord(leader_id)
        case VotersChange(voters):
            seats = voters.seats
            storage_ids = tuple(str(storage or "") for storage in seats.values())
            return VotersRecord(tuple(seats), storage_ids, tuple(sorted(voters.given_up)) or None)
        case Bootstrapped():
            return BootstrappedRecord()
