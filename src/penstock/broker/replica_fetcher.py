"""Followers fetch: one task for each leader, all partitions that it leads for us in one request.

A round: ask with the end of each log, carry out what each partition's core makes of its answer (append,
truncate, begin anew), wait until that is flushed, ask again, which acknowledges it. A fetch that waits at the
leader is broken off when another partition joins, so that this one need not wait, too.

Requests are incremental (replication/fetch_session.py), and so is the work for them: a round looks at the
partitions that were answered for. The metadata or retention may have changed others; they are looked at now
and then, and when the metadata has told of it. One that the leader has an error for leaves the session until
its pause is over.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any, Final

from penstock.broker.partition import SETTLE_S_MAX
from penstock.broker.replica_wire import write_fetch
from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.replication.divergence import LogEnd
from penstock.replication.fetch_session import FollowerSession
from penstock.replication.follower import AppendRecords, FetchAgain, Retry, StartAt, Stop, TruncateTo
from penstock.replication.leader import Member
from penstock.replication.replica_fetch import ReplicaAnswer
from penstock.storage import StorageError
from penstock.types import ErrorCode
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.broker.partition import Partition
    from penstock.config import ClusterLimits
    from penstock.peers.peers import Peers
    from penstock.replication.fetch_session import Key
    from penstock.replication.follower import PartitionFollower

log = logging.getLogger(__name__)

FETCH: Final = (1, 17)
RETRY_S: Final = 0.1
ANSWER_S_MAX: Final = 5.0
ALL_DUE_S: Final = 0.25
"""How late the leader may hear that retention has moved the start of a log here."""
SESSION_ERRORS: Final = (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch)
"""Upon which a session is begun anew."""


class ReplicaFetchers:
    """The tasks of one broker, by leader."""

    def __init__(
        self,
        node_id: int,
        peers: Peers,
        limits: ClusterLimits,
        *,
        cluster_id: Callable[[], str],
        broker_epoch: Callable[[], int],
        now_ms: Callable[[], int],
    ) -> None:
        self.node_id = node_id
        self.peers = peers
        self.limits = limits
        self.cluster_id = cluster_id
        self.broker_epoch = broker_epoch
        self.now_ms = now_ms
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._is_closed = False

    def assign(self, partitions: Iterable[Partition]) -> None:
        """What this broker follows now, all of it."""
        if self._is_closed:
            return
        wanted: dict[int, list[Partition]] = {}
        for partition in partitions:
            if partition.follower is not None:
                wanted.setdefault(partition.follower.state.leader, []).append(partition)
        for leader, fetcher in tuple(self._fetchers.items()):
            if leader not in wanted:
                fetcher.stop()
                del self._fetchers[leader]
        for leader, followed in wanted.items():
            if leader not in self._fetchers:
                self._fetchers[leader] = LeaderFetcher(self, leader)
            self._fetchers[leader].assign(followed)

    def has_just_lost(self, leader: int) -> bool:
        """Whether a leader that answered does not any more, and the controller may not have noticed yet."""
        fetcher = self._fetchers.get(leader)
        return fetcher is not None and fetcher.lost_for_s() < self.limits.broker_session_ms / 1000

    async def close(self) -> None:
        self._is_closed = True
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        for fetcher in fetchers:
            fetcher.stop()
        await asyncio.gather(*(fetcher.task for fetcher in fetchers), return_exceptions=True)


class LeaderFetcher:
    def __init__(self, fetchers: ReplicaFetchers, leader: int) -> None:
        self._fetchers = fetchers
        self._leader = leader
        self._session = FollowerSession()
        self._partitions: dict[Key, Partition] = {}
        self._asked: dict[Key, PartitionFollower] = {}
        """Those in the session, each in the leader epoch in which it is asked for."""
        self._due: set[Key] = set()
        """May want another fetch than the last time."""
        self._all_due_at = 0.0
        self._paused_until: dict[Key, float] = {}
        self._refused: dict[Key, ErrorCode] = {}
        """How the last fetch of a partition failed."""
        self._asking: asyncio.Task[Any] | None = None
        self._answers = False
        self._lost_at = -math.inf
        """When it ceased to answer; never, while it does and before it ever has."""
        self._loop = asyncio.get_running_loop()
        self.task = self._loop.create_task(self._run())

    def assign(self, partitions: Iterable[Partition]) -> None:
        wanted = {(partition.topic_id, partition.index): partition for partition in partitions}
        is_more = wanted.keys() - self._partitions.keys()
        self._partitions = wanted
        self._all_due_at = 0.0
        if is_more and self._asking is not None:
            self._asking.cancel()

    def stop(self) -> None:
        self.task.cancel()

    def lost_for_s(self) -> float:
        return self._loop.time() - self._lost_at

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except (PeerError, DecodeError) as error:
                log.debug("fetching from broker %d: %s", self._leader, error)
                if self._answers:
                    self._answers, self._lost_at = False, self._loop.time()
                self._session.lost()
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("fetching from broker %d", self._leader)
                self._session.lost()
                await asyncio.sleep(RETRY_S)

    async def _round(self) -> None:
        await self._look()
        if self._session.is_empty:
            await asyncio.sleep(RETRY_S)
            return
        answer = await self._ask()
        if answer is None:
            self._session.lost()  # with the connection that was broken off
            return
        if not self._session.answered(answer.error_code, answer.session_id):
            if answer.error_code in SESSION_ERRORS:
                return
            raise PeerError(f"it answers {answer.error_code.name}")
        self._answers, self._lost_at = True, -math.inf
        work = []
        for topic in answer.responses:
            for found in topic.partitions:
                key = (topic.topic_id, found.partition_index)
                if key not in self._asked:
                    raise PeerError("it answers what it was not asked for")
                self._due.add(key)
                self._session.refused(key, found.error_code)
                if (partition := self._partitions.get(key)) is not None:
                    work.append(self._handle(key, partition, self._asked[key], found))
        if len(work) == 1:
            await work[0]
        else:
            await asyncio.gather(*work)

    # What to ask for

    async def _look(self) -> None:
        """Tell the session what is to be fetched now."""
        now = self._loop.time()
        for key in [key for key, until in self._paused_until.items() if until <= now]:
            del self._paused_until[key]
            self._due.add(key)
        if now >= self._all_due_at:
            self._all_due_at = now + ALL_DUE_S
            self._due = {*self._partitions, *self._asked}
        due, self._due = self._due, set()
        busy = [
            partition
            for key in due
            if (partition := self._partitions.get(key)) is not None
            and partition.is_busy
            and partition.flushing_ms() < 1000 * SETTLE_S_MAX  # it was waited for before
            and self._is_followed(key, partition)
        ]
        if busy:
            await asyncio.gather(*(partition.settle() for partition in busy))
        for key in due:
            self._look_at(key)

    def _look_at(self, key: Key) -> None:
        partition = self._partitions.get(key)
        if partition is None:
            self._refused.pop(key, None)
        if partition is None or partition.is_busy or not self._is_followed(key, partition):
            self._session.forget(key)
            self._asked.pop(key, None)
            return
        assert partition.follower is not None
        self._session.want(key, partition.follower.next_fetch())
        self._asked[key] = partition.follower

    def _is_followed(self, key: Key, partition: Partition) -> bool:
        follower = partition.follower
        return (
            follower is not None
            and follower.state.leader == self._leader
            and partition.log.error is None
            and key not in self._paused_until
        )

    async def _ask(self) -> Any:
        """The answer, or None if it was broken off because there is more to ask for."""
        self._asking = self._loop.create_task(
            self._fetchers.peers.ask(
                self._leader, Lane.REPLICAS, *FETCH, self._request(), timeout_s=ANSWER_S_MAX
            )
        )
        try:
            await asyncio.wait([self._asking])
            if self._asking.cancelled():
                return None
            return self._asking.result()
        except asyncio.CancelledError:
            self._asking.cancel()
            raise
        finally:
            self._asking = None

    def _request(self) -> bytes:
        fetchers = self._fetchers
        wait_ms = fetchers.limits.replica_fetch_wait_ms
        if self._paused_until:  # the leader may wait for news, but not longer than a partition here has to
            pause_s = min(self._paused_until.values()) - self._loop.time()
            wait_ms = min(wait_ms, max(0, int(pause_s * 1000)))
        return write_fetch(
            self._session.request(),
            Member(fetchers.node_id, fetchers.broker_epoch()),
            cluster_id=fetchers.cluster_id(),
            wait_ms=wait_ms,
            bytes_max=fetchers.limits.replica_fetch_bytes_max,
        )

    # What to make of the answers

    async def _handle(self, key: Key, partition: Partition, follower: PartitionFollower, found: Any) -> None:
        if partition.follower is not follower:
            return  # the answer belongs to an epoch that has ended
        records = found.records or b""
        diverging = found.diverging_epoch
        answer = ReplicaAnswer(
            found.error_code,
            found.high_watermark,
            found.log_start_offset,
            LogEnd(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
            has_records=bool(records),
        )
        try:
            match follower.answered(answer):
                case AppendRecords():
                    self._refused.pop(key, None)
                    partition.log.append_fetched(records, now_ms=self._fetchers.now_ms())
                    await partition.settle()
                case TruncateTo(offset):
                    self._report(partition, f"truncated to {offset}")
                    partition.log.truncate_to(offset)
                    await partition.settle()
                case StartAt(offset):
                    self._report(partition, f"begins anew at {offset}, where the leader's log starts")
                    partition.log.restart_at(offset)
                case Retry(error):
                    if error not in (ErrorCode.unknown_leader_epoch, self._refused.get(key)):
                        self._report(partition, f"the leader answers {error.name}")
                    self._refused[key] = error
                    self._pause(key)
                case Stop():
                    self._pause(key)
                case FetchAgain():
                    self._refused.pop(key, None)
        except StorageError as error:
            log.error("%s-%d: %s", partition.topic, partition.index, error)
            self._pause(key)
            return
        if partition.follower is follower:
            follower.flushed()
            partition.follower_moved()
            if follower.log_start_offset > partition.log_start_offset:
                partition.log.delete_records_before(follower.log_start_offset)

    def _pause(self, key: Key) -> None:
        self._paused_until[key] = self._loop.time() + RETRY_S

    def _report(self, partition: Partition, what: str) -> None:
        log.info("%s-%d, following broker %d: %s", partition.topic, partition.index, self._leader, what)
