"""A follower that fetches, against a leader made of a log in memory."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.fetch.v17.response import FetchResponse
from kio.serial import entity_reader

from penstock.broker import replica_fetcher
from penstock.broker.metrics import Metrics
from penstock.broker.partition import Partition, Surroundings
from penstock.broker.replica_fetcher import RETRY_S, ReplicaFetchers
from penstock.broker.replica_wire import read_fetch
from penstock.broker.writers import WriterThreads
from penstock.config import ClusterLimits
from penstock.metadata.configs import effective_topic_config
from penstock.metadata.image import PartitionImage
from penstock.peers.connection import PeerDownError
from penstock.replication.divergence import LogEnd
from penstock.replication.fetch_session import LeaderSession
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch, maybe_refuse
from penstock.storage import LogConfig, MemoryStorage, PartitionLog
from penstock.types import ErrorCode, TopicPartition
from penstock.wire.batch import read_header
from penstock.wire.records import Record, encode_batch
from penstock.wire.replica_fetch import ReplicaPartition, write_response
from tests.unit.broker.in_process import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ME, LEADER = 1, 2
TOPIC_ID = uuid.UUID(int=7)
ALL = 1 << 62
READ = entity_reader(FetchResponse)
READ_REQUEST = entity_reader(FetchRequest)


def new_log() -> PartitionLog:
    return MemoryStorage(uuid.uuid4()).open_log("t-0", TOPIC_ID, LogConfig(), now_ms=0)


def write(log: PartitionLog, epoch: int, *values: bytes) -> None:
    batch = encode_batch([Record(at, 1, None, value) for at, value in enumerate(values)])
    log.append(batch, read_header(batch), leader_epoch=epoch, now_ms=1)
    log.flush()


def content(log: PartitionLog) -> bytes:
    return b"".join(bytes(data) for _, data in log.batches(log.log_start_offset, ALL))


class Leader:
    """Broker 2, in the place of all peers: leads every partition in `epoch`, with one log. No sessions."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.log = new_log()
        self.log.begin_epoch(epoch)
        self.high_watermark = 0
        self.is_down = False
        self.error = ErrorCode.none
        self.asked: list[FetchRequest] = []

    async def ask(self, node_id: int, _lane: object, key: int, version: int, body: bytes, **_: float) -> Any:
        assert (node_id, key, version) == (LEADER, 1, 17)
        request = read_asked(body)
        self.asked.append(request)
        await asyncio.sleep(0.002)
        if self.is_down:
            raise PeerDownError("connection refused")
        topics = [
            (topic.topic_id or uuid.UUID(int=0), [self._answer(each) for each in topic.partitions])
            for topic in request.topics
        ]
        return read_answer(write_response([] if self.error else topics, self.error))

    def _answer(self, asked: Any) -> ReplicaPartition:
        fetch = ReplicaFetch(
            asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch, asked.log_start_offset
        )
        return self._answer_fetch(asked.partition, fetch)

    def _answer_fetch(self, index: int, fetch: ReplicaFetch) -> ReplicaPartition:
        refused = maybe_refuse(self.epoch, self.log, self.high_watermark, fetch)
        if refused is not None:
            return ReplicaPartition(
                index, refused.error, refused.high_watermark, refused.log_start_offset, refused.diverging
            )
        records = self.log.read(fetch.offset, 1, end_offset=ALL)
        return ReplicaPartition(index, 0, self.high_watermark, self.log.log_start_offset, records=records)


class SessionLeader(Leader):
    """One that grants sessions. It never waits: all that it has is answered as soon as it is asked."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)
        self.session: LeaderSession | None = None
        self.sessions = 0
        self.refused: dict[int, ErrorCode] = {}
        """Partitions that it has an error for."""

    async def ask(self, node_id: int, _lane: object, key: int, version: int, body: bytes, **_: float) -> Any:
        assert (node_id, key, version) == (LEADER, 1, 17)
        asked = read_asked(body)
        self.asked.append(asked)
        await asyncio.sleep(0.002)
        request = read_fetch(asked)
        if request.is_full:
            self.sessions += 1
            self.session = LeaderSession(self.sessions)
        refusal = ErrorCode.fetch_session_id_not_found
        if self.session is not None:
            refusal = self.session.maybe_refuse(request) or ErrorCode.none
        if self.session is None or refusal is not ErrorCode.none:
            return read_answer(write_response([], refusal))
        self.session.update(request)
        answers = [
            answer
            for (_, index), fetch in tuple(self.session.fetches.items())
            if (answer := self._maybe_answer(self.session, index, fetch)) is not None
        ]
        return read_answer(write_response([(TOPIC_ID, answers)], session_id=self.session.id))

    def _maybe_answer(self, session: LeaderSession, index: int, fetch: ReplicaFetch) -> Any:
        if index in self.refused:
            found = ReplicaPartition(index, self.refused[index])
        else:
            found = self._answer_fetch(index, fetch)
        diverging = None if found.diverging is None else LogEnd(*found.diverging)
        answer = ReplicaAnswer(
            ErrorCode(found.error_code),
            found.high_watermark,
            found.log_start_offset,
            diverging,
            has_records=len(found.records) > 0,
        )
        return found if session.is_news((TOPIC_ID, index), self.epoch, answer) else None

    def named(self) -> list[tuple[list[int], list[int]]]:
        """The partitions in each request: wanted and forgotten."""
        return [
            (
                [each.partition for topic in asked.topics for each in topic.partitions],
                [index for topic in asked.forgotten_topics_data for index in topic.partitions],
            )
            for asked in self.asked
        ]


def read_asked(body: bytes) -> FetchRequest:
    request, size = READ_REQUEST(body, 0)
    assert size == len(body), "bytes are left over"
    return request


def read_answer(buffers: list[Any]) -> Any:
    response, _ = READ(b"".join(map(bytes, buffers)), 0)
    return response


class Follower:
    """Broker 1 with its tasks, and as many partitions as wanted."""

    def __init__(self, leader: Leader) -> None:
        self.writers = WriterThreads(asyncio.get_running_loop())
        self.surroundings = Surroundings(
            ME, self.writers, Metrics(), lambda: 1, lambda: 1, 1_000, failed=lambda: None
        )
        self.fetchers = ReplicaFetchers(
            ME,
            leader,  # type: ignore[arg-type]  # it answers as they do
            ClusterLimits(),
            cluster_id=lambda: "c",
            broker_epoch=lambda: 55,
            now_ms=lambda: 1,
        )

    def partition(self, log: PartitionLog, index: int = 0, *, epoch: int) -> Partition:
        config = effective_topic_config({})
        return Partition(
            TopicPartition("t", index), TOPIC_ID, log, led(LEADER, epoch), config, {1, 2}, self.surroundings
        )


def led(leader: int, epoch: int) -> PartitionImage:
    return PartitionImage(leader, epoch, replicas=(2, 1), isr=(2, 1), partition_epoch=epoch)


def run(epoch: int, work: Callable[[Any, Follower], Awaitable[None]], kind: type[Leader] = Leader) -> None:
    async def all_of_it() -> None:
        leader = kind(epoch)
        follower = Follower(leader)
        try:
            await work(leader, follower)
        finally:
            await follower.fetchers.close()
            follower.writers.close()

    asyncio.run(all_of_it())


def test_a_follower_gets_what_the_leader_has_and_says_so() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        for number in range(20):
            write(leader.log, 3, b"%d" % number, b"x")
        partition = follower.partition(new_log(), epoch=3)
        follower.fetchers.assign([partition])
        await eventually(lambda: partition.log.flushed_end_offset == 40)
        assert content(partition.log) == content(leader.log)
        assert partition.high_watermark == 0
        leader.high_watermark = 38
        await eventually(lambda: partition.high_watermark == 38)
        request = leader.asked[-1]
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (ME, 55)
        assert request.topics[0].partitions[0].fetch_offset == 40, "which acknowledges it"

    run(3, work)


def test_records_are_acknowledged_only_when_they_are_flushed() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        for number in range(10):
            write(leader.log, 3, b"%d" % number)
        partition = follower.partition(new_log(), epoch=3)
        flushed_before: list[int] = []
        ask = leader.ask

        async def watched(*arguments: Any, **named: Any) -> Any:
            flushed_before.append(partition.log.flushed_end_offset)
            return await ask(*arguments, **named)

        leader.ask = watched  # type: ignore[method-assign]
        follower.fetchers.assign([partition])
        await eventually(lambda: partition.log.flushed_end_offset == 10)
        claimed = [request.topics[0].partitions[0].fetch_offset for request in leader.asked]
        assert claimed == flushed_before[: len(claimed)]

    run(3, work)


def test_what_parted_from_the_leader_is_truncated_by_epochs() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        log = new_log()
        leader.log = new_log()
        for each in (log, leader.log):
            write(each, 1, b"common", b"common")
        write(log, 2, b"lost", b"lost", b"lost")
        write(log, 3, b"lost")
        write(leader.log, 4, b"kept")
        partition = follower.partition(log, epoch=4)
        follower.fetchers.assign([partition])
        await eventually(lambda: content(log) == content(leader.log))
        assert log.epochs.entries == leader.log.epochs.entries == [(1, 0), (4, 2)]

    run(4, work)


def test_a_follower_that_is_too_far_behind_begins_anew() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        for number in range(10):
            write(leader.log, 3, b"%d" % number)
        leader.high_watermark = 10
        leader.log.delete_records_before(6)
        log = new_log()
        write(log, 3, b"0")
        partition = follower.partition(log, epoch=3)
        follower.fetchers.assign([partition])
        await eventually(lambda: log.flushed_end_offset == 10 and partition.high_watermark == 10)
        assert (log.log_start_offset, content(log)) == (6, content(leader.log))

    run(3, work)


def test_the_start_of_the_log_follows_the_leaders() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        for number in range(10):
            write(leader.log, 3, b"%d" % number)
        partition = follower.partition(new_log(), epoch=3)
        follower.fetchers.assign([partition])
        await eventually(lambda: partition.log.flushed_end_offset == 10)
        leader.log.delete_records_before(5)
        leader.high_watermark = 10
        await eventually(lambda: partition.log_start_offset == 5)

    run(3, work)


def test_a_leader_that_is_away_is_asked_again() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        write(leader.log, 3, b"v")
        leader.is_down = True
        partition = follower.partition(new_log(), epoch=3)
        follower.fetchers.assign([partition])
        await eventually(lambda: len(leader.asked) == 2)
        leader.is_down = False
        leader.error = ErrorCode.inconsistent_cluster_id
        before = len(leader.asked)
        await eventually(lambda: len(leader.asked) == before + 2)
        assert partition.log.log_end_offset == 0
        leader.error = ErrorCode.none
        await eventually(lambda: partition.log.flushed_end_offset == 1)

    run(3, work)


def test_a_leader_that_ceases_to_answer_is_doubted_at_once_and_for_a_session() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        fetchers = follower.fetchers
        assert not fetchers.has_just_lost(LEADER), "nothing is followed"
        leader.is_down = True
        fetchers.assign([follower.partition(new_log(), epoch=3)])
        await eventually(lambda: len(leader.asked) == 2)
        assert not fetchers.has_just_lost(LEADER), "it never answered"
        leader.is_down = False
        before = len(leader.asked)
        await eventually(lambda: len(leader.asked) == before + 2)
        assert not fetchers.has_just_lost(LEADER)
        leader.is_down = True
        await eventually(lambda: fetchers.has_just_lost(LEADER))
        fetchers.limits = ClusterLimits(broker_session_ms=0)
        assert not fetchers.has_just_lost(LEADER), "by now the controller has noticed, or it is not so"
        fetchers.limits = ClusterLimits()
        leader.is_down = False
        await eventually(lambda: not fetchers.has_just_lost(LEADER))

    run(3, work)


def test_another_partition_does_not_wait_for_the_fetch_under_way() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        write(leader.log, 3, b"v")
        first, second = (follower.partition(new_log(), index, epoch=3) for index in (0, 1))
        ask = leader.ask
        is_held = asyncio.Event()

        async def held(*arguments: Any, **named: Any) -> Any:
            if len(read_asked(arguments[4]).topics[0].partitions) == 1:
                is_held.set()
                await asyncio.get_running_loop().create_future()  # a fetch that waits for ever
            return await ask(*arguments, **named)

        leader.ask = held  # type: ignore[method-assign]
        follower.fetchers.assign([first])
        await is_held.wait()
        follower.fetchers.assign([first, second])
        await eventually(lambda: first.log.flushed_end_offset == second.log.flushed_end_offset == 1)

    run(3, work)


def test_an_answer_of_an_epoch_that_has_ended_changes_nothing() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        write(leader.log, 3, b"v")
        partition = follower.partition(new_log(), epoch=3)
        ask = leader.ask
        answered = asyncio.Event()

        async def too_late(*arguments: Any, **named: Any) -> Any:
            answer = await ask(*arguments, **named)
            partition.apply(led(ME, 4), {1, 2})
            answered.set()
            return answer

        leader.ask = too_late  # type: ignore[method-assign]
        follower.fetchers.assign([partition])
        await answered.wait()
        await partition.settle()
        await asyncio.sleep(0.02)
        assert (partition.is_leader, partition.log.log_end_offset) == (True, 0)

    run(3, work)


def test_a_leader_of_whom_nothing_is_followed_any_more_is_left_alone() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        partition = follower.partition(new_log(), epoch=3)
        follower.fetchers.assign([partition])
        await eventually(lambda: len(leader.asked) > 1)
        follower.fetchers.assign([])
        await asyncio.sleep(0.01)
        asked = len(leader.asked)
        await asyncio.sleep(0.03)
        assert len(leader.asked) == asked

    run(3, work)


def test_after_the_end_nothing_is_followed() -> None:
    async def work(leader: Leader, follower: Follower) -> None:
        partition = follower.partition(new_log(), epoch=3)
        await follower.fetchers.close()
        follower.fetchers.assign([partition])
        await asyncio.sleep(0.01)
        assert leader.asked == []

    run(3, work)


def test_in_a_session_only_what_changed_is_sent() -> None:
    async def work(leader: SessionLeader, follower: Follower) -> None:
        first, second = (follower.partition(new_log(), index, epoch=3) for index in (0, 1))
        write(leader.log, 3, b"v")
        follower.fetchers.assign([first, second])
        await eventually(lambda: len(leader.asked) >= 4)
        assert leader.named()[:4] == [([0, 1], []), ([0, 1], []), ([], []), ([], [])]
        follower.fetchers.assign([first])
        await eventually(lambda: ([], [1]) in leader.named())
        write(leader.log, 3, b"w")
        await eventually(lambda: first.log.flushed_end_offset == 2)
        assert second.log.flushed_end_offset == 1
        assert leader.sessions == 1

    run(3, work, SessionLeader)


def test_the_start_of_a_log_that_retention_moves_here_is_sent() -> None:
    async def work(leader: SessionLeader, follower: Follower) -> None:
        write(leader.log, 3, b"v")
        leader.high_watermark = 1
        partition = follower.partition(new_log(), epoch=3)
        follower.fetchers.assign([partition])
        await eventually(lambda: partition.high_watermark == 1)
        partition.log.delete_records_before(1)
        await eventually(
            lambda: leader.session is not None and leader.session.fetches[(TOPIC_ID, 0)].log_start_offset == 1
        )

    run(3, work, SessionLeader)


def test_a_session_that_the_leader_does_not_know_is_begun_anew() -> None:
    async def work(leader: SessionLeader, follower: Follower) -> None:
        partition = follower.partition(new_log(), epoch=3)
        follower.fetchers.assign([partition])
        await eventually(lambda: leader.session is not None and len(leader.asked) > 2)
        leader.session = None
        before = len(leader.asked)
        await eventually(lambda: leader.sessions == 2)
        assert ([0], []) in leader.named()[before:]
        write(leader.log, 3, b"v")
        await eventually(lambda: partition.log.flushed_end_offset == 1)

    run(3, work, SessionLeader)


@pytest.mark.parametrize(
    ("error", "forgotten"), [(ErrorCode.not_leader_or_follower, []), (ErrorCode.kafka_storage_error, [1])]
)
def test_a_partition_that_is_refused_pauses_and_comes_back(
    error: ErrorCode, forgotten: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(leader: SessionLeader, follower: Follower) -> None:
        first, second = (follower.partition(new_log(), index, epoch=3) for index in (0, 1))
        leader.refused = {1: error}
        follower.fetchers.assign([first, second])
        await eventually(lambda: len(leader.asked) > 1)
        assert leader.named()[1] == ([], forgotten)
        assert leader.asked[1].max_wait <= timedelta(seconds=RETRY_S)
        write(leader.log, 3, b"v")
        await eventually(lambda: first.log.flushed_end_offset == 1)
        await eventually(lambda: leader.named().count(([1], [])) >= 2)
        assert second.log.flushed_end_offset == 0
        leader.refused = {}
        await eventually(lambda: second.log.flushed_end_offset == 1)
        assert leader.sessions == 1

    monkeypatch.setattr(replica_fetcher, "ALL_DUE_S", 1e9)  # it comes back by itself
    run(3, work, SessionLeader)


def test_a_pause_that_was_over_before_the_next_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the disk is slow with what came for another partition."""

    async def work(leader: SessionLeader, follower: Follower) -> None:
        partition = follower.partition(new_log(), epoch=3)
        leader.refused = {0: ErrorCode.not_leader_or_follower}
        follower.fetchers.assign([partition])
        await eventually(lambda: len(leader.asked) > 2)
        leader.refused = {}
        write(leader.log, 3, b"v")
        await eventually(lambda: partition.log.flushed_end_offset == 1)
        assert leader.sessions == 1

    monkeypatch.setattr(replica_fetcher, "RETRY_S", 0.0)
    run(3, work, SessionLeader)


def test_a_fetch_that_is_broken_off_ends_its_session() -> None:
    """Its connection is gone: the leader would not know the session."""

    async def work(leader: SessionLeader, follower: Follower) -> None:
        first, second = (follower.partition(new_log(), index, epoch=3) for index in (0, 1))
        ask = leader.ask
        is_held = asyncio.Event()

        async def held(*arguments: Any, **named: Any) -> Any:
            if not read_asked(arguments[4]).topics:
                is_held.set()
                await asyncio.get_running_loop().create_future()  # there is nothing new
            return await ask(*arguments, **named)

        leader.ask = held  # type: ignore[method-assign]
        follower.fetchers.assign([first])
        await is_held.wait()
        before = len(leader.asked)
        follower.fetchers.assign([first, second])
        await eventually(lambda: len(leader.asked) > before)
        assert (leader.asked[before].session_epoch, leader.named()[before]) == (0, ([0, 1], []))

    run(3, work, SessionLeader)


def test_a_new_leader_epoch_is_sent() -> None:
    async def work(leader: SessionLeader, follower: Follower) -> None:
        partition = follower.partition(new_log(), epoch=3)
        follower.fetchers.assign([partition])
        await eventually(lambda: len(leader.asked) > 2)
        leader.epoch = 4
        leader.log.begin_epoch(4)
        write(leader.log, 4, b"v")
        partition.apply(led(LEADER, 4), {1, 2})
        follower.fetchers.assign([partition])
        await eventually(lambda: partition.log.flushed_end_offset == 1)

    run(3, work, SessionLeader)
