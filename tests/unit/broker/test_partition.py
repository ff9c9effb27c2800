"""Acknowledgements, readers and the end of a partition, on logs that flush when the test says so."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest

from penstock.broker.metrics import Metrics
from penstock.broker.partition import Partition
from penstock.metadata.configs import effective_topic_config
from penstock.metadata.image import PartitionImage
from penstock.storage import LogConfig, MemoryStorage, StorageError
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.batch import read_header
from penstock.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.storage import FlushJob


class ByHand:
    """Writer threads that do nothing until they are told to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[FlushJob, Callable[[FlushJob], None]]] = []

    def submit(self, job: FlushJob, done: Callable[[FlushJob], None]) -> None:
        self.jobs.append((job, done))

    def finish(self, error: StorageError | None = None) -> None:
        job, done = self.jobs.pop(0)
        job.run()
        job.error = error
        done(job)


class Watcher:
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def data_arrived(self, size: int) -> None:
        self.sizes.append(size)


def make() -> tuple[Partition, ByHand]:
    storage = MemoryStorage(uuid.uuid4())
    log = storage.open_log("t-0", uuid.uuid4(), LogConfig(), now_ms=0)
    writers = ByHand()
    image = PartitionImage(leader=1, leader_epoch=3, replicas=(1,), isr=(1,), partition_epoch=0)
    partition = Partition(
        TopicPartition("t", 0), log.topic_id, log, image, effective_topic_config({}),
        writers=writers, metrics=Metrics(), now_ms=lambda: 1,
    )  # type: ignore[arg-type]  # fmt: skip
    return partition, writers


def append(partition: Partition, count: int = 1) -> int:
    batch = encode_batch([Record(i, 1, None, b"v") for i in range(count)])
    return partition.append(batch, read_header(batch))


def test_acknowledgements_come_with_the_flush_in_order() -> None:
    partition, writers = make()
    told: list[str] = []

    def tell(name: str) -> Callable[[ApiError | None], None]:
        return lambda error: told.append(name if error is None else f"{name}: {error.code.name}")

    assert append(partition, 2) == 0
    partition.when_committed(2, tell("a"))
    assert append(partition, 3) == 2
    partition.when_committed(5, tell("b"))
    partition.when_committed(2, tell("a again"))
    assert (told, partition.high_watermark, len(writers.jobs)) == ([], 0, 1)
    writers.finish()
    assert (told, partition.high_watermark, len(writers.jobs)) == (["a", "a again"], 2, 1)
    writers.finish()
    assert (told[2:], partition.high_watermark) == (["b"], 5)
    partition.when_committed(5, tell("at once"))
    assert told[-1] == "at once"


def test_readers_hear_how_much_became_readable() -> None:
    partition, writers = make()
    watcher = Watcher()
    partition.add_reader(watcher)
    append(partition)
    append(partition)
    assert watcher.sizes == []
    writers.finish()
    writers.finish()
    assert sum(watcher.sizes) == partition.log.size_bytes
    partition.remove_reader(watcher)
    append(partition)
    writers.finish()
    assert len(watcher.sizes) == 2


def test_a_failed_flush_fails_who_waits_and_who_comes() -> None:
    partition, writers = make()
    codes: list[ErrorCode | None] = []
    append(partition)
    partition.when_committed(1, lambda error: codes.append(error.code if error else None))
    writers.finish(StorageError("cannot write t-0: No space left on device"))
    partition.when_committed(1, lambda error: codes.append(error.code if error else None))
    assert codes == [ErrorCode.kafka_storage_error] * 2
    assert partition.high_watermark == 0
    with pytest.raises(ApiError, match="No space left") as caught:
        append(partition)
    assert caught.value.code == ErrorCode.kafka_storage_error


def test_draining_waits_for_the_flush_and_sends_everybody_home() -> None:
    async def scenario() -> None:
        partition, writers = make()
        watcher = Watcher()
        partition.add_reader(watcher)
        append(partition)
        draining = asyncio.create_task(partition.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        with pytest.raises(ApiError) as caught:
            append(partition)
        assert caught.value.code == ErrorCode.not_leader_or_follower
        writers.finish()
        await draining
        assert len(watcher.sizes) == 2, "a waiting fetch is woken for good"
        partition.log.close()

    asyncio.run(scenario())


def test_draining_waits_for_a_flush_that_brings_no_records() -> None:
    """DeleteRecords changes the leader epochs; their file is written by a job of its own."""

    async def scenario() -> None:
        partition, writers = make()
        append(partition)
        writers.finish()
        append(partition)
        partition.log.delete_records_before(1)
        writers.finish()
        draining = asyncio.create_task(partition.drain())
        await asyncio.sleep(0)
        while writers.jobs:
            assert not draining.done()
            writers.finish()
        await draining
        partition.log.close()

    asyncio.run(scenario())


def test_leader_epochs_are_checked() -> None:
    partition, _ = make()
    partition.check_leader_epoch(-1)
    partition.check_leader_epoch(3)
    for epoch, code in ((2, ErrorCode.fenced_leader_epoch), (4, ErrorCode.unknown_leader_epoch)):
        with pytest.raises(ApiError) as caught:
            partition.check_leader_epoch(epoch)
        assert caught.value.code == code
