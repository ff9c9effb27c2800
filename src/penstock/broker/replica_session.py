"""The leader's side of a fetch session: what it looks at for a request, and how it waits for news.

The session watches its partitions: one that moves is due, as is one that a request asks for otherwise than
before. Only those are looked at. For the others the request says that the follower still is where it was,
which matters only to the clock that keeps it in sync. So they are counted as fetched when the last time was
a while ago, not at each request: with one busy partition among a thousand there are many of these. What
nobody tells of is found then, too: a log start that retention moved.

With little room in an answer, partitions that were left out stay due, before those that come after them: each
gets its turn.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.broker.wakeup import Wakeup
from penstock.replication.fetch_session import LeaderSession, SessionRequest
from penstock.replication.leader import Member
from penstock.replication.replica_fetch import ReplicaAnswer
from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.replica_fetch import ReplicaPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition
    from penstock.replication.fetch_session import Key
    from penstock.replication.replica_fetch import ReplicaFetch
    from penstock.wire.batch import Buffer

COUNT_MS: Final = 250
"""How old a follower's last sign of life may look: far less than what puts it out of sync."""
NOBODY: Final = Member(-1, -1)
NO_RECORDS: Final = b""


class _Watch:
    """A partition of a session, which it does not keep alive: the session ends with its connection."""

    __slots__ = ("_session", "bytes_max", "fetch", "key", "log_start_offset", "partition")

    def __init__(self, session: ReplicaSession, key: Key, fetch: ReplicaFetch) -> None:
        self._session = weakref.ref(session)
        self.key = key
        self.fetch = fetch
        self.bytes_max = 0
        self.partition: Partition | None = None
        self.log_start_offset = -1
        """When we looked the last time."""

    def data_arrived(self, size: int) -> None:  # noqa: ARG002 - any news is news
        session = self._session()
        if session is not None:
            session.moved(self.key)

    def move_to(self, partition: Partition | None) -> None:
        if self.partition is not None:
            self.partition.remove_reader(self)
        if partition is not None:
            partition.add_reader(self, is_replica=True)
        self.partition = partition


def _stop_watching(watches: dict[Key, _Watch]) -> None:
    for watch in watches.values():
        watch.move_to(None)
    watches.clear()


class ReplicaSession:
    def __init__(self, broker: Broker, session_id: int) -> None:
        self._broker = broker
        self._core = LeaderSession(session_id)
        self._replica = NOBODY
        self._watches: dict[Key, _Watch] = {}
        self._due: dict[Key, None] = {}
        """To be looked at, in this order."""
        self._counted_at_ms = 0
        self._wakeup = Wakeup()
        self.close = weakref.finalize(self, _stop_watching, self._watches)
        self.close.atexit = False

    @property
    def id(self) -> int:
        return self._core.id

    def maybe_refuse(self, request: SessionRequest) -> ErrorCode | None:
        return self._core.maybe_refuse(request)

    def update(self, request: SessionRequest, replica: Member, bytes_max: Mapping[Key, int]) -> None:
        """What a request that is not refused says; `bytes_max` for each partition that it names."""
        self._core.update(request)
        for key in request.forgotten:
            self._drop(key)
        for key, fetch in request.fetches.items():
            watch = self._watches.get(key)
            if watch is None:
                watch = self._watches[key] = _Watch(self, key, fetch)
            watch.fetch = fetch
            watch.bytes_max = bytes_max[key]
            self._due[key] = None
        now_ms = self._broker.monotonic_ms()
        if replica != self._replica or now_ms - self._counted_at_ms >= COUNT_MS:
            self._replica, self._counted_at_ms = replica, now_ms
            self._count_all()

    def _count_all(self) -> None:
        """All partitions are fetched where they were; those with more to say than that are due."""
        due = frozenset(self._due)
        for watch in self._watches.values():
            if due and watch.key in due:
                continue
            partition = watch.partition
            if (
                partition is None
                or not partition.is_leader
                or partition.log_start_offset != watch.log_start_offset
                or self._count(partition, watch.fetch) is not None
            ):
                self._due[watch.key] = None

    def moved(self, key: Key) -> None:
        if key in self._watches:
            self._due[key] = None
            self._wakeup.wake()

    async def wait(self, timeout_s: float) -> None:
        """Until a partition has moved, or the time is over."""
        await self._wakeup.wait(timeout_s)

    def read(self, room: int) -> dict[UUID, list[ReplicaPartition]]:
        """The news; at least one batch if there is any, whatever the limits are."""
        news: dict[UUID, list[ReplicaPartition]] = {}
        total = 0
        for key in tuple(self._due):
            found = self._read_partition(self._watches[key], max(room - total, 0), is_first=total == 0)
            if found is not None:
                total += len(found.records)
                news.setdefault(key[0], []).append(found)
        return news

    def _read_partition(self, watch: _Watch, room: int, *, is_first: bool) -> ReplicaPartition | None:
        key, fetch = watch.key, watch.fetch
        records: Buffer = NO_RECORDS
        is_left_out = False
        try:
            partition = self._find(watch)
            answer = self._count(partition, fetch)
            if answer is None:
                end_offset = partition.log.flushed_end_offset
                if fetch.offset < end_offset:
                    size_max = min(watch.bytes_max, room)
                    is_left_out = size_max <= 0 and not is_first
                    if not is_left_out:
                        records = partition.read(fetch.offset, size_max, end_offset=end_offset)
                watch.log_start_offset = partition.log_start_offset
                answer = ReplicaAnswer(
                    ErrorCode.none,
                    partition.high_watermark,
                    watch.log_start_offset,
                    has_records=len(records) > 0,
                )
            leader_epoch = partition.leader_epoch
        except ApiError as error:
            answer, leader_epoch = ReplicaAnswer(error.code), -1
        except StorageError as error:
            self._broker.log.error("offset %d of %s-%d: %s", fetch.offset, partition.topic, key[1], error)
            answer, leader_epoch = ReplicaAnswer(ErrorCode.kafka_storage_error), -1
        if not is_left_out:
            self._due.pop(key, None)  # what moved while we looked is in the answer
        is_news = self._core.is_news(key, leader_epoch, answer)
        if key not in self._core.fetches:
            self._drop(key)
        if not is_news:
            return None
        return ReplicaPartition(
            key[1], answer.error, answer.high_watermark, answer.log_start_offset, answer.diverging, records
        )

    def _count(self, partition: Partition, fetch: ReplicaFetch) -> ReplicaAnswer | None:
        """Take note of how far the follower is; an answer if its fetch must not count."""
        assert partition.leader is not None
        refused = partition.leader.maybe_refuse(self._replica, fetch)
        if refused is None:
            partition.replica_fetched(self._replica, fetch)
        return refused

    def _find(self, watch: _Watch) -> Partition:
        """The partition, led here, and watched from now on."""
        partition = watch.partition
        if partition is not None and partition.is_leader:
            return partition
        topic_id, index = watch.key
        topic = self._broker.controller.image.topic_by_id(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_id)
        partition = self._broker.partitions.get(topic.name, index)
        if partition is None or partition.topic_id != topic_id or not partition.is_leader:
            raise ApiError(ErrorCode.not_leader_or_follower)
        watch.move_to(partition)
        return partition

    def _drop(self, key: Key) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.move_to(None)
        self._due.pop(key, None)
