"""A node's copy of the metadata log: batches, what the quorum writes itself, and what lies beside the log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from penstock.controller.metadata_log import (
    COMPRESSED_FROM_BYTES,
    ELECTION_STATE,
    MetadataLog,
    maybe_entry,
    record_of,
)
from penstock.metadata.records import FeatureLevelRecord, ProducerIdsRecord
from penstock.quorum.messages import Bootstrapped, ElectionState, LeaderChange, VotersChange
from penstock.quorum.voters import Voter, VoterSet
from penstock.storage import FileStorage, FlushJob, MemoryStorage, Storage, StorageError
from penstock.wire.batch import read_header
from penstock.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW_MS = 1_700_000_000_000
END = 1 << 40
VOTER = Voter(3, UUID(int=33))
VOTERS = VoterSet({1: UUID(int=11), 2: None, 3: UUID(int=33)})
ENTRIES = [LeaderChange(2), VotersChange(VOTERS), VotersChange(VoterSet({})), Bootstrapped()]


@pytest.fixture(params=["file", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    opened: Storage
    if request.param == "file":
        opened = FileStorage.open(tmp_path / "data", 1)
    else:
        opened = MemoryStorage(UUID(int=1))
    yield opened
    opened.close()


def opened(storage: Storage) -> MetadataLog:
    return MetadataLog(storage, now_ms=NOW_MS)


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_the_quorum_writes_is_a_record_like_others(entry: object) -> None:
    assert maybe_entry(record_of(entry)) == entry  # type: ignore[arg-type]


def test_other_records_are_none_of_the_quorums() -> None:
    assert maybe_entry(FeatureLevelRecord("metadata.version", 1)) is None


def test_control_entries_have_their_own_offsets(storage: Storage) -> None:
    log = opened(storage)
    log.append([record_of(LeaderChange(2))], epoch=1, now_ms=NOW_MS)
    log.append(
        [ProducerIdsRecord(1, 1_000), record_of(VotersChange(VOTERS)), record_of(Bootstrapped())],
        epoch=1,
        now_ms=NOW_MS,
    )
    log.append([record_of(LeaderChange(3))], epoch=4, now_ms=NOW_MS)
    assert list(log.control_entries(0, END)) == [], "nothing counts before it is flushed"
    asyncio.run(log.flush())
    found = [(0, LeaderChange(2)), (2, VotersChange(VOTERS)), (3, Bootstrapped()), (4, LeaderChange(3))]
    assert list(log.control_entries(0, END)) == found
    assert list(log.control_entries(4, END)) == found[3:]
    assert list(log.control_entries(0, 4)) == found[:3]
    log.close()
    log = opened(storage)
    assert list(log.control_entries(0, END)) == found
    log.close()


def test_batches_come_back_as_they_were(storage: Storage) -> None:
    log = opened(storage)
    small = [ProducerIdsRecord(1, 1_000)]
    large = [ProducerIdsRecord(1, number) for number in range(COMPRESSED_FROM_BYTES)]
    assert log.append(small, epoch=2, now_ms=NOW_MS) == 0
    assert log.append(large, epoch=3, now_ms=NOW_MS + 5) == 1
    asyncio.run(log.flush())
    first, second = log.batches(0, END)
    assert first == (0, 2, NOW_MS, small)
    assert second == (1, 3, NOW_MS + 5, large)
    assert log.log.size_bytes < COMPRESSED_FROM_BYTES * 20, "many that are alike take little room"
    log.close()


def test_a_copy_is_what_was_fetched(storage: Storage) -> None:
    log, other = opened(storage), opened(MemoryStorage(UUID(int=2)))
    for epoch in (1, 1, 3):
        log.append([ProducerIdsRecord(epoch, 1_000), record_of(Bootstrapped())], epoch=epoch, now_ms=NOW_MS)
    asyncio.run(log.flush())
    other.append_fetched(log.read(0), now_ms=NOW_MS)
    asyncio.run(other.flush())
    assert list(other.batches(0, END)) == list(log.batches(0, END))
    assert other.log.epochs.entries == log.log.epochs.entries
    other.truncate(4)
    assert (other.end_offset, other.log.epochs.latest) == (4, 1)
    other.append_fetched(log.read(4), now_ms=NOW_MS)
    asyncio.run(other.flush())
    assert list(other.batches(0, END)) == list(log.batches(0, END))
    log.close()


@pytest.mark.parametrize(
    "value",
    [b"{}", b"nonsense", b'{"type":"of the future","version":0}', b"\xff"],
)
def test_a_batch_that_makes_no_sense_is_named(storage: Storage, value: bytes) -> None:
    log = opened(storage)
    log.append([ProducerIdsRecord(1, 1_000)], epoch=1, now_ms=NOW_MS)
    batch = encode_batch([Record(0, NOW_MS, None, value)])
    log.log.append(batch, read_header(batch), leader_epoch=1, now_ms=NOW_MS)
    asyncio.run(log.flush())
    with pytest.raises(StorageError, match="batch at offset 1"):
        list(log.batches(0, END))
    log.close()


def test_a_flush_that_fails_is_told(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: FlushJob) -> None:
        job.error = StorageError("cannot sync: Input/output error")

    log = opened(storage)
    monkeypatch.setattr(FlushJob, "run", fail)
    log.append([ProducerIdsRecord(1, 1_000)], epoch=1, now_ms=NOW_MS)
    with pytest.raises(StorageError, match="Input/output error"):
        asyncio.run(log.flush())
    assert list(log.batches(0, END)) == []
    with pytest.raises(StorageError, match="Input/output error"):
        log.append([ProducerIdsRecord(1, 1_000)], epoch=1, now_ms=NOW_MS)
    log.close()


# The election state


@pytest.mark.parametrize(
    "state",
    [
        ElectionState(),
        ElectionState(7, VOTER, None),
        ElectionState(8, VOTER, 3),
        ElectionState(9, None, 0),
    ],
)
def test_the_election_state_is_remembered(storage: Storage, state: ElectionState) -> None:
    log = opened(storage)
    assert log.load_state() == ElectionState()
    log.store_state(ElectionState(6, Voter(1, UUID(int=1)), 2))
    log.store_state(state)
    assert log.load_state() == state
    log.close()
    log = opened(storage)
    assert log.load_state() == state
    log.close()


@pytest.mark.parametrize(
    "note",
    [
        [],
        "text",
        {},
        {"epoch": 1, "voted_for": None},
        {"epoch": 1, "voted_for": {"node_id": 1}, "leader_id": None},
        {"epoch": 1, "voted_for": {"node_id": 1, "storage_id": "no uuid"}, "leader_id": None},
    ],
)
def test_an_election_state_of_another_shape_is_refused(storage: Storage, note: object) -> None:
    """Never forgotten silently: a node that forgot its vote might vote twice in one epoch."""
    log = opened(storage)
    log.log.put_note(ELECTION_STATE, note)
    with pytest.raises(StorageError, match="quorum-state of __cluster_metadata-0 is damaged"):
        log.load_state()
    log.close()


def test_a_damaged_election_state_is_refused(tmp_path: Path) -> None:
    storage = FileStorage.open(tmp_path / "data", 1)
    log = opened(storage)
    log.store_state(ElectionState(7, VOTER, None))
    (file,) = (tmp_path / "data").rglob(f"*{ELECTION_STATE}*")
    file.write_bytes(file.read_bytes().replace(b"7", b"8"))
    with pytest.raises(StorageError, match="quorum-state of __cluster_metadata-0 is damaged"):
        log.load_state()
    log.close()
    storage.close()
