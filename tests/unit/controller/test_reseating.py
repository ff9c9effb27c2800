"""A controller that goes on alone: what is written to its log, and what is not touched."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.controller.metadata_log import METADATA_LOG, METADATA_TOPIC_ID, MetadataLog
from penstock.controller.reseating import look_at, make_only_voter
from penstock.metadata.records import LeaderChangeRecord, TopicRecord, VotersRecord
from penstock.quorum.messages import ElectionState
from penstock.quorum.voters import Voter
from penstock.storage import MemoryStorage, StorageError
from penstock.storage.config import LogConfig

ME = UUID(int=3)
OTHERS = (str(UUID(int=1)), str(UUID(int=2)))


def storage_with(*records: object) -> MemoryStorage:
    storage = MemoryStorage(ME, node_id=3, cluster_id="c")
    log = MetadataLog(storage, now_ms=0)
    for record in records:
        log.append([record], epoch=4, now_ms=0)  # type: ignore[list-item]  # any of them
    log.store_state(ElectionState(5, Voter(2, UUID(int=2)), 2))
    log.close()
    return storage


def test_it_is_the_only_voter_in_a_later_epoch_and_keeps_all_that_it_has() -> None:
    voters = VotersRecord((1, 2, 3), (*OTHERS, str(ME)))
    storage = storage_with(LeaderChangeRecord(2), voters, TopicRecord("t", UUID(int=9)))
    before = look_at(storage, 0)
    assert (list(before.voters.seats), before.epoch, before.end_offset) == ([1, 2, 3], 5, 3)
    make_only_voter(storage, 3, 0)
    after = look_at(storage, 0)
    assert (after.voters.seats, after.epoch, after.end_offset) == ({3: ME}, 6, 4)
    assert after.voters.given_up == {1, 2}
    assert after.image == before.image
    state = MetadataLog(storage, now_ms=0).load_state()
    assert (state.epoch, state.voted_for, state.leader_id) == (6, None, None)


def test_without_metadata_there_is_nothing_to_go_on_with() -> None:
    storage = MemoryStorage(ME, node_id=3, cluster_id="c")
    with pytest.raises(StorageError, match="no metadata"):
        look_at(storage, 0)
    storage.open_log(METADATA_LOG, METADATA_TOPIC_ID, LogConfig(), 0).close()
    with pytest.raises(StorageError, match="do not say who the controllers are"):
        look_at(storage, 0)
