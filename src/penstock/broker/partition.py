"""One partition that this broker leads: its log, its high watermark, and who waits for it to move.

A batch is appended at once, in arrival order, and is *committed* when the high watermark passes it. With one
replica that is when the log's own flush policy is met. Acknowledgements and long-polling fetches wait here,
as callbacks and running byte counts: a partition that nobody writes to costs nothing.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from penstock.storage import FlushJob, PartitionLog, StorageError
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.batch import BatchHeader, read_header
from penstock.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from penstock.broker.metrics import Metrics
    from penstock.broker.writers import WriterThreads
    from penstock.metadata.configs import TopicConfig
    from penstock.metadata.image import PartitionImage

WhenCommitted = Callable[[ApiError | None], None]


class Reader(Protocol):
    def data_arrived(self, size: int) -> None: ...


class Partition:
    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        log: PartitionLog,
        image: PartitionImage,
        config: TopicConfig,
        *,
        writers: WriterThreads,
        metrics: Metrics,
        now_ms: Callable[[], int],
    ) -> None:
        self.topic, self.index = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = image.leader_epoch
        self.isr = image.isr
        self.config = config
        self.high_watermark = log.flushed_end_offset
        self._writers = writers
        self._metrics = metrics
        self._now_ms = now_ms
        self._waiting: deque[tuple[int, int, WhenCommitted]] = deque()  # by end offset, then arrival
        self._arrivals = 0
        self._uncommitted: deque[tuple[int, int]] = deque()  # (end offset, size) of each batch
        self._readers: set[Reader] = set()
        self._drained: list[asyncio.Future[None]] = []
        self._closed = False

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    def check_leader_epoch(self, leader_epoch: int) -> None:
        """Refuse a client whose metadata is older or newer than ours; -1 skips the check."""
        if leader_epoch == -1 or leader_epoch == self.leader_epoch:
            return
        if leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.fenced_leader_epoch)
        raise ApiError(ErrorCode.unknown_leader_epoch)

    def update(self, image: PartitionImage) -> None:
        self.leader_epoch = image.leader_epoch
        self.isr = image.isr

    # Writing

    def append(self, batch: bytes | memoryview, header: BatchHeader) -> int:
        """Append a validated batch; returns its base offset. Committed later: see `when_committed`."""
        if self._closed:
            raise ApiError(ErrorCode.not_leader_or_follower)
        try:
            base_offset = self.log.append(
                batch, header, leader_epoch=self.leader_epoch, now_ms=self._now_ms()
            )
        except StorageError as error:
            raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error
        self._metrics.batches_appended += 1
        self._uncommitted.append((base_offset + header.last_offset_delta + 1, header.size))
        self._flush()
        return base_offset

    def when_committed(self, end_offset: int, callback: WhenCommitted) -> None:
        """Call back once everything before `end_offset` is committed, or with the error that prevents it."""
        if self._closed:
            callback(ApiError(ErrorCode.not_leader_or_follower))
        elif self.high_watermark >= end_offset:
            callback(None)
        elif self.log.error is not None:
            callback(ApiError(ErrorCode.kafka_storage_error, str(self.log.error)))
        else:
            self._arrivals += 1
            waiting = (end_offset, self._arrivals, callback)
            if self._waiting and self._waiting[-1][0] > end_offset:
                insort(self._waiting, waiting)  # the answer to a duplicate, behind newer batches
            else:
                self._waiting.append(waiting)

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

    async def append_records(self, records: Sequence[Record]) -> int:
        """Append the broker's own records as one batch; returns its base offset when it is committed."""
        batch = encode_batch([record._replace(offset=index) for index, record in enumerate(records)])
        base_offset = self.append(batch, read_header(batch))
        await self.committed(base_offset + len(records))
        return base_offset

    # Reading

    def add_reader(self, reader: Reader) -> None:
        """Tell `reader` of bytes that become readable, until `remove_reader`."""
        self._readers.add(reader)

    def remove_reader(self, reader: Reader) -> None:
        self._readers.discard(reader)

    # Flushing

    def _flush(self) -> None:
        job = self.log.take_flush()
        if job is not None:
            self._writers.submit(job, self._flushed)

    def _flushed(self, job: FlushJob) -> None:
        self.log.finish_flush(job)
        self._metrics.flushes += 1
        self._advance(self.log.flushed_end_offset)
        if self.log.error is not None:
            self._fail_waiting(ApiError(ErrorCode.kafka_storage_error, str(self.log.error)))
        else:
            self._flush()
        if self._drained and not self.is_busy:
            for future in self._drained:
                if not future.done():
                    future.set_result(None)
            self._drained.clear()

    def _advance(self, high_watermark: int) -> None:
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        size = 0
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            size += self._uncommitted.popleft()[1]
        while self._waiting and self._waiting[0][0] <= high_watermark:
            self._waiting.popleft()[2](None)
        for reader in tuple(self._readers):
            reader.data_arrived(size)

    def _fail_waiting(self, error: ApiError) -> None:
        while self._waiting:
            self._waiting.popleft()[2](error)

    # Ending

    @property
    def is_busy(self) -> bool:
        """Whether a flush is in flight or due."""
        log = self.log
        return log.is_flushing or (log.error is None and log.flushed_end_offset < log.log_end_offset)

    async def drain(self) -> None:
        """Refuse new appends and wait until what was appended is flushed; then the log may be closed."""
        self._closed = True
        if self.is_busy:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(future)
            await future
        self._fail_waiting(ApiError(ErrorCode.not_leader_or_follower))
        for reader in tuple(self._readers):
            reader.data_arrived(1 << 31)
