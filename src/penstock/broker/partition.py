"""One replica of a partition on this broker: its log, its role, and who waits for it to move.

The metadata says who leads, in which leader epoch, and who is in sync (`apply`). A leader appends at once, in
arrival order; a batch is *committed* when the high watermark passes it, which the leader's core decides (see
replication/leader.py). A follower is fed by its fetcher (replica_fetcher.py). Acknowledgements and fetches
wait here, as callbacks and running byte counts: a partition that nobody writes to costs nothing.

Whoever waits for an acknowledgement is told NOT_LEADER_OR_FOLLOWER when the epoch ends: in another epoch
nothing of it may be promised.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from penstock.broker.verifications import Verifications
from penstock.replication.follower import PartitionFollower
from penstock.replication.leader import PartitionLeader, PartitionState
from penstock.storage import FlushJob, PartitionLog, StorageError
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.batch import BatchHeader, Buffer, read_header

if TYPE_CHECKING:
    from penstock.broker.metrics import Metrics
    from penstock.broker.writers import WriterThreads
    from penstock.metadata.configs import TopicConfig
    from penstock.metadata.image import PartitionImage
    from penstock.replication.leader import Member
    from penstock.replication.replica_fetch import ReplicaFetch

WhenDone = Callable[[ApiError | None], None]
SETTLE_S_MAX: Final = 1.0
END_OF_WAITING = 1 << 31
"""More bytes than any reader waits for: look again, whatever has happened."""


class Reader(Protocol):
    def data_arrived(self, size: int) -> None: ...


class Surroundings(NamedTuple):
    """What a partition needs of its broker."""

    node_id: int
    writers: WriterThreads
    metrics: Metrics
    now_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]
    lag_ms_max: int
    failed: Callable[[], None]
    """A log has become read-only: the controller should know."""


class Waiters:
    """Callbacks that wait for an offset to be passed, in the order of offset and arrival."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, WhenDone]] = deque()
        self._arrivals = 0

    def add(self, end_offset: int, callback: WhenDone) -> None:
        self._arrivals += 1
        waiting = (end_offset, self._arrivals, callback)
        if self._waiting and self._waiting[-1][0] > end_offset:
            insort(self._waiting, waiting)  # the answer to a duplicate, behind newer batches
        else:
            self._waiting.append(waiting)

    def passed(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            self._waiting.popleft()[2](None)

    def fail(self, error: ApiError) -> None:
        while self._waiting:
            self._waiting.popleft()[2](error)


class Partition:
    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        log: PartitionLog,
        image: PartitionImage,
        config: TopicConfig,
        live: Collection[int],
        surroundings: Surroundings,
    ) -> None:
        self.topic, self.index = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.config = config
        self.high_watermark = log.log_start_offset
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.has_enough_replicas = False
        """Whether a write can be acknowledged by all in-sync replicas and these are enough."""
        self._me = surroundings.node_id
        self._writers = surroundings.writers
        self._metrics = surroundings.metrics
        self._now_ms = surroundings.now_ms
        self._monotonic_ms = surroundings.monotonic_ms
        self._lag_ms_max = surroundings.lag_ms_max
        self._failed = surroundings.failed
        self._flush_began_ms = 0
        self._committed = Waiters()
        self._flushed_here = Waiters()
        self._deleted_everywhere = Waiters()
        self._live: Collection[int] = live
        self._uncommitted: deque[tuple[int, int]] = deque()  # (end offset, size) of each batch
        self._readers: set[Reader] = set()
        self._replica_readers: set[Reader] = set()
        self._drained: list[asyncio.Future[None]] = []
        self.verifications = Verifications()
        self.touches = 0
        """Batches appended here and reads that found something; with the bytes of both, see load_meter.py."""
        self.appended_bytes = 0
        self.read_bytes = 0
        self._closed = False
        self.image = image
        self._take_role(image, live)

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self.leader is not None

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Where the first open transaction begins; without one, the high watermark."""
        return self.log.producers.transactions.last_stable_offset(self.high_watermark)

    def check_leader_epoch(self, leader_epoch: int) -> None:
        """Refuse a client whose metadata is older or newer than ours; -1 skips the check."""
        if leader_epoch == -1 or leader_epoch == self.leader_epoch:
            return
        if leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.fenced_leader_epoch)
        raise ApiError(ErrorCode.unknown_leader_epoch)

    def check_is_leader(self) -> None:
        if self.leader is None:
            raise ApiError(ErrorCode.not_leader_or_follower)

    def check_serves_offsets(self) -> None:
        """A new leader does not know yet how much of its log is committed."""
        if self.leader is None:
            raise ApiError(ErrorCode.not_leader_or_follower)
        if not self.leader.serves_offsets:
            raise ApiError(ErrorCode.offset_not_available)

    # Roles

    def apply(self, image: PartitionImage, live: Collection[int]) -> None:
        """What the metadata says now of this partition, and which brokers it takes for alive."""
        before = self.image
        if self._closed or image.partition_epoch < before.partition_epoch:
            return
        self.image = image
        if image.leader_epoch != before.leader_epoch or image.leader != before.leader:
            # An epoch of another leader in between, of which we never heard, puts in doubt what we appended.
            leads_on = image.leader == before.leader and image.leader_epoch == before.leader_epoch + 1
            if not leads_on:
                self._fail_waiting(ApiError(ErrorCode.not_leader_or_follower))
                self._uncommitted.clear()
            self._take_role(image, live)
        elif image.partition_epoch != before.partition_epoch:
            if self.leader is not None and self.leader.changed(state_of(image)):
                self._advance(self.leader.high_watermark)
            elif self.follower is not None:
                self.follower.state = state_of(image)
        self.brokers_changed(live)

    def brokers_changed(self, live: Collection[int]) -> None:
        self._live = live
        self.count_replicas()

    def count_replicas(self) -> None:
        """Who has fallen silent is a matter of time, too: called now and then."""
        self.has_enough_replicas = self.leader is not None and self.leader.takes_acks_all(
            self._live, self._monotonic_ms()
        )

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        if self.leader is not None:
            self.leader.min_insync_replicas = config.min_insync_replicas
            if self.leader.advance():
                self._advance(self.leader.high_watermark)
        self.count_replicas()  # who leads alone gets no fetch that would have it counted

    def _take_role(self, image: PartitionImage, live: Collection[int]) -> None:
        self.leader = self.follower = None
        self.verifications.resign()
        if image.leader == self._me:
            self.log.begin_epoch(image.leader_epoch)
            self.leader = PartitionLeader(
                self._me,
                state_of(image),
                self.log,
                high_watermark=self.high_watermark,
                min_insync_replicas=self.config.min_insync_replicas,
                lag_ms_max=self._lag_ms_max,
                now_ms=self._monotonic_ms(),
            )
            self._flush()
            if self.leader.advance():
                self._advance(self.leader.high_watermark)
        elif image.leader >= 0:
            self.follower = PartitionFollower(self._me, state_of(image), self.log, self.high_watermark)
            self.high_watermark = self.follower.high_watermark
        self.brokers_changed(live)
        self._wake_readers()

    # Writing

    def append(self, batch: bytes | memoryview, header: BatchHeader) -> int:
        """Append a validated batch; returns its base offset. Committed later: see `when_committed`."""
        if self._closed or self.leader is None:
            raise ApiError(ErrorCode.not_leader_or_follower)
        try:
            base_offset = self.log.append(
                batch, header, leader_epoch=self.image.leader_epoch, now_ms=self._now_ms()
            )
        except StorageError as error:
            raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error
        self._metrics.batches_appended += 1
        self.touches += 1
        self.appended_bytes += header.size
        self._uncommitted.append((base_offset + header.last_offset_delta + 1, header.size))
        self._flush()
        return base_offset

    def when_committed(self, end_offset: int, callback: WhenDone) -> None:
        """Call back once everything before `end_offset` is committed, or with the error that prevents it."""
        self._when(self.high_watermark, self._committed, end_offset, callback)

    def when_flushed(self, end_offset: int, callback: WhenDone) -> None:
        """The same, once it is flushed on this broker, which is all that acks=1 asks for."""
        self._when(self.log.flushed_end_offset, self._flushed_here, end_offset, callback)

    def _when(self, reached: int, waiters: Waiters, end_offset: int, callback: WhenDone) -> None:
        if self._closed or self.leader is None:
            callback(ApiError(ErrorCode.not_leader_or_follower))
        elif reached >= end_offset:
            callback(None)
        elif self.log.error is not None:
            callback(ApiError(ErrorCode.kafka_storage_error, str(self.log.error)))
        else:
            waiters.add(end_offset, callback)

    async def committed(self, end_offset: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(error: ApiError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.when_committed(end_offset, finish)
        await future

    async def append_own(self, batch: bytes) -> int:
        """Append a batch of the broker's own; returns its base offset when it is committed."""
        if self.leader is not None and not self.has_enough_replicas:
            raise ApiError(ErrorCode.not_enough_replicas)
        header = read_header(batch)
        base_offset = self.append(batch, header)
        await self.committed(base_offset + header.last_offset_delta + 1)
        return base_offset

    # Reading

    def read(self, offset: int, size_max: int, *, end_offset: int) -> Buffer:
        """For somebody else: see `PartitionLog.read`."""
        records = self.log.read(offset, size_max, end_offset=end_offset)
        if len(records):
            self.touches += 1
            self.read_bytes += len(records)
        return records

    def add_reader(self, reader: Reader, *, is_replica: bool = False) -> None:
        """Tell `reader` of bytes that become readable, until `remove_reader`.

        To a replica what is flushed here is readable, and it hears of every move of the high watermark.
        """
        (self._replica_readers if is_replica else self._readers).add(reader)

    def remove_reader(self, reader: Reader) -> None:
        self._readers.discard(reader)
        self._replica_readers.discard(reader)

    # Replicas

    def replica_fetched(self, replica: Member, fetch: ReplicaFetch) -> None:
        """A follower, in our epoch and in agreement with our log, has all before the offset of its fetch."""
        assert self.leader is not None
        now_ms = self._monotonic_ms()
        if self.leader.fetched(*replica, fetch.offset, now_ms, fetch.log_start_offset):
            self._advance(self.leader.high_watermark)
        if not self.has_enough_replicas:
            self.count_replicas()
        self._deleted_everywhere.passed(self.leader.low_watermark(self._live))

    def move_log_start(self, offset: int) -> None:
        """Delete what comes before the offset, here; the other replicas follow by and by."""
        self.check_is_leader()
        self.log.delete_records_before(offset)
        self._flush()  # a new segment may have been begun
        for reader in tuple(self._replica_readers):
            reader.data_arrived(END_OF_WAITING)

    async def delete_records_before(self, offset: int, timeout_s: float) -> None:
        """Move the start of the log, here and then on every live replica."""
        self.move_log_start(offset)
        assert self.leader is not None
        if self.leader.low_watermark(self._live) >= offset:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(error: ApiError | None) -> None:
            if not done.done():
                done.set_exception(error) if error is not None else done.set_result(None)

        self._deleted_everywhere.add(offset, finish)
        self._wake_readers()
        try:
            async with asyncio.timeout(timeout_s):
                await done
        except TimeoutError as error:
            raise ApiError(ErrorCode.request_timed_out) from error

    def follower_moved(self) -> None:
        """A follower's log or high watermark is another one now."""
        if self.follower is not None and self.follower.high_watermark != self.high_watermark:
            self.high_watermark = self.follower.high_watermark
            self._wake_readers()

    async def settle(self) -> None:
        """Wait until nothing is on its way to the disk, so that the log may be truncated or read on from.

        Not for long: a disk that hangs must not hold up whoever looks after other partitions, too.
        """
        self._flush()
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S_MAX):
                await self._until_idle()

    async def _until_idle(self) -> None:
        if self.is_busy:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(future)
            await future

    # Flushing

    def _flush(self) -> None:
        job = self.log.take_flush()
        if job is not None:
            self._flush_began_ms = self._monotonic_ms()
            self._writers.submit(job, self._flushed)

    def _flushed(self, job: FlushJob) -> None:
        self.log.finish_flush(job)
        self._metrics.flushes += 1
        if self.leader is not None:
            self._flushed_here.passed(self.log.flushed_end_offset)
            if self.leader.advance():
                self._advance(self.leader.high_watermark)
            for reader in tuple(self._replica_readers):
                reader.data_arrived(END_OF_WAITING)
        if self.log.error is not None:
            self._fail_waiting(ApiError(ErrorCode.kafka_storage_error, str(self.log.error)))
            self._failed()
        else:
            self._flush()
        if self._drained and not self.is_busy:
            for future in self._drained:
                if not future.done():
                    future.set_result(None)
            self._drained.clear()

    def give_up(self, reason: str) -> None:
        """The log is not to be trusted, or its disk does not answer: nothing is written to it any more."""
        self.log.give_up(reason)
        self._fail_waiting(ApiError(ErrorCode.kafka_storage_error, str(self.log.error)))
        self._failed()

    def flushing_ms(self) -> int:
        """For how long the flush under way has been; 0 without one."""
        return self._monotonic_ms() - self._flush_began_ms if self.log.is_flushing else 0

    def _advance(self, high_watermark: int) -> None:
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        size = 0
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            size += self._uncommitted.popleft()[1]
        self._committed.passed(high_watermark)
        for reader in tuple(self._readers):
            reader.data_arrived(size)
        for reader in tuple(self._replica_readers):
            reader.data_arrived(END_OF_WAITING)

    def _fail_waiting(self, error: ApiError) -> None:
        self._committed.fail(error)
        self._flushed_here.fail(error)
        self._deleted_everywhere.fail(error)

    def _wake_readers(self) -> None:
        for reader in (*self._readers, *self._replica_readers):
            reader.data_arrived(END_OF_WAITING)

    # Ending

    @property
    def is_busy(self) -> bool:
        """Whether a flush is in flight or due."""
        log = self.log
        return log.is_flushing or (log.error is None and log.flushed_end_offset < log.log_end_offset)

    async def drain(self) -> None:
        """Refuse new appends and wait until what was appended is flushed; then the log may be closed."""
        self._closed = True
        self.follower = None
        await self._until_idle()
        self.leader = None  # not before: who waits for that flush is told that it came
        self._fail_waiting(ApiError(ErrorCode.not_leader_or_follower))
        self._wake_readers()


def state_of(image: PartitionImage) -> PartitionState:
    return PartitionState(image.leader, image.leader_epoch, image.partition_epoch, image.replicas, image.isr)
