"""Followers fetch: one task for each leader, all partitions that it leads for us in one request.

A round: ask with the end of each log, carry out what each partition's core makes of its answer (append,
truncate, begin anew), wait until that is flushed, ask again, which acknowledges it. A fetch that waits at the
leader is broken off when another partition joins, so that this one need not wait, too.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.replication.divergence import LogEnd
from penstock.replication.follower import AppendRecords, FetchAgain, Retry, StartAt, Stop, TruncateTo
from penstock.replication.replica_fetch import ReplicaAnswer
from penstock.storage import StorageError
from penstock.types import ErrorCode
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from penstock.broker.partition import Partition
    from penstock.config import ClusterLimits
    from penstock.peers.peers import Peers
    from penstock.replication.follower import PartitionFollower
    from penstock.wire.shapes import Body

log = logging.getLogger(__name__)

FETCH: Final = (1, 17)
RETRY_S: Final = 0.1
ANSWER_S_MAX: Final = 5.0


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
        self._partitions: dict[tuple[UUID, int], Partition] = {}
        self._paused_until: dict[tuple[UUID, int], float] = {}
        self._asking: asyncio.Task[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self.task = self._loop.create_task(self._run())

    def assign(self, partitions: Iterable[Partition]) -> None:
        wanted = {(partition.topic_id, partition.index): partition for partition in partitions}
        is_more = wanted.keys() - self._partitions.keys()
        self._partitions = wanted
        if is_more and self._asking is not None:
            self._asking.cancel()

    def stop(self) -> None:
        self.task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except (PeerError, DecodeError) as error:
                log.debug("fetching from broker %d: %s", self._leader, error)
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("fetching from broker %d", self._leader)
                await asyncio.sleep(RETRY_S)

    async def _round(self) -> None:
        now = self._loop.time()
        ready = {
            key: (partition, partition.follower)
            for key, partition in self._partitions.items()
            if partition.follower is not None
            and partition.follower.state.leader == self._leader
            and partition.log.error is None
            and self._paused_until.get(key, 0.0) <= now
        }
        if not ready:
            await asyncio.sleep(RETRY_S)
            return
        await asyncio.gather(*(partition.settle() for partition, _ in ready.values() if partition.is_busy))
        ready = {
            key: (partition, follower)
            for key, (partition, follower) in ready.items()
            if partition.follower is follower and not partition.is_busy
        }
        answer = await self._ask({key: follower for key, (_, follower) in ready.items()})
        if answer is None:
            return
        if answer.error_code is not ErrorCode.none:
            raise PeerError(f"it answers {answer.error_code.name}")
        work = []
        for topic in answer.responses:
            for found in topic.partitions:
                key = (topic.topic_id, found.partition_index)
                work.append(self._handle(key, *ready[key], found))
        await asyncio.gather(*work)

    async def _ask(self, followers: Mapping[tuple[UUID, int], PartitionFollower]) -> Any:
        """The answer, or None if it was broken off because there is more to ask for."""
        self._asking = self._loop.create_task(
            self._fetchers.peers.ask(
                self._leader, Lane.REPLICAS, *FETCH, self._request(followers), timeout_s=ANSWER_S_MAX
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

    def _request(self, followers: Mapping[tuple[UUID, int], PartitionFollower]) -> Body:
        limits = self._fetchers.limits
        topics: dict[UUID, list[Body]] = {}
        for (topic_id, index), follower in followers.items():
            fetch = follower.next_fetch()
            topics.setdefault(topic_id, []).append(
                {
                    "partition": index,
                    "current_leader_epoch": fetch.leader_epoch,
                    "fetch_offset": fetch.offset,
                    "last_fetched_epoch": fetch.last_epoch,
                    "log_start_offset": fetch.log_start_offset,
                    "partition_max_bytes": limits.replica_fetch_bytes_max,
                }
            )
        return {
            "cluster_id": self._fetchers.cluster_id(),
            "replica_state": {
                "replica_id": self._fetchers.node_id,
                "replica_epoch": self._fetchers.broker_epoch(),
            },
            "max_wait": datetime.timedelta(milliseconds=limits.replica_fetch_wait_ms),
            "min_bytes": 1,
            "max_bytes": limits.replica_fetch_bytes_max,
            "topics": [{"topic_id": key, "partitions": found} for key, found in topics.items()],
        }

    async def _handle(
        self, key: tuple[UUID, int], partition: Partition, follower: PartitionFollower, found: Any
    ) -> None:
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
                    partition.log.append_fetched(records, now_ms=self._fetchers.now_ms())
                    await partition.flush_fetched()
                case TruncateTo(offset):
                    self._report(partition, f"truncated to {offset}")
                    partition.log.truncate_to(offset)
                    await partition.flush_fetched()
                case StartAt(offset):
                    self._report(partition, f"begins anew at {offset}, where the leader's log starts")
                    partition.log.restart_at(offset)
                case Retry(error):
                    if error is not ErrorCode.unknown_leader_epoch:
                        self._report(partition, f"the leader answers {error.name}")
                    self._pause(key)
                case Stop():
                    self._pause(key)
                case FetchAgain():
                    pass
        except StorageError as error:
            log.error("%s-%d: %s", partition.topic, partition.index, error)
            self._pause(key)
            return
        if partition.follower is follower:
            follower.flushed()
            partition.follower_moved()
            if follower.log_start_offset > partition.log_start_offset:
                partition.log.delete_records_before(follower.log_start_offset)

    def _pause(self, key: tuple[UUID, int]) -> None:
        self._paused_until[key] = self._loop.time() + RETRY_S

    def _report(self, partition: Partition, what: str) -> None:
        log.info("%s-%d, following broker %d: %s", partition.topic, partition.index, self._leader, what)
