"""Going on with one controller of several, when most of the others have lost their disks for good.

No election can help then: the majority that would have to vote is not there any more. On the disk of the one
that has its log, while its node does not run, an entry is written that makes it the only voter. It commits
that by itself at its next start. The others, which come with empty disks, get the log from it and their seats
again, as one that was replaced does (quorum/leadership.py).

Two that still have their old disks could vote for a leader of their own. That there are none is for the
operator to know.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.controller.metadata_log import METADATA_LOG, MetadataLog
from penstock.metadata.image import ImageDraft, MetadataImage
from penstock.metadata.records import VotersRecord
from penstock.quorum.messages import ElectionState, VotersChange
from penstock.storage.errors import StorageError

if TYPE_CHECKING:
    from penstock.quorum.voters import VoterSet
    from penstock.storage.interface import Storage


class Survivor(NamedTuple):
    """What a node's copy of the metadata says."""

    voters: VoterSet
    epoch: int
    end_offset: int
    image: MetadataImage


def look_at(storage: Storage, now_ms: int) -> Survivor:
    """StorageError if there is nothing to go on with."""
    if METADATA_LOG not in [name for name, _ in storage.logs()]:
        raise StorageError("there are no metadata in this node's data folder")
    log = MetadataLog(storage, now_ms=now_ms)
    try:
        return _read(log)
    finally:
        log.close()


def _read(log: MetadataLog) -> Survivor:
    draft = ImageDraft(MetadataImage())
    voters = None
    if log.snapshot is not None:
        voters = log.snapshot.voters
        for record in log.snapshot.records:
            draft.apply(record)
    for batch in log.batches(log.replay_offset, log.end_offset):
        for record in batch.records:
            draft.apply(record)
    for _, entry in log.control_entries(log.replay_offset, log.end_offset):
        if isinstance(entry, VotersChange):
            voters = entry.voters
    if voters is None:
        raise StorageError("this node's metadata do not say who the controllers are")
    epoch = max(log.load_state().epoch, log.log.epochs.latest)
    return Survivor(voters, epoch, log.end_offset, draft.finish()[0])


def make_only_voter(storage: Storage, node_id: int, now_ms: int) -> None:
    """All entries of its log count from then on, also those that no majority ever had."""
    log = MetadataLog(storage, now_ms=now_ms)
    try:
        before = _read(log)
        epoch, given_up = before.epoch + 1, tuple(seat for seat in before.voters.seats if seat != node_id)
        # Before the entry: whoever dies between the two has only missed an election.
        log.store_state(ElectionState(epoch))
        alone = VotersRecord((node_id,), (str(storage.storage_id),), given_up)
        log.append([alone], epoch=epoch, now_ms=now_ms)
        asyncio.run(log.flush())
    finally:
        log.close()
