"""Acknowledgements, readers and the end of a partition, on logs that flush when the test says so."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest

from penstock.broker.metrics import Metrics
from penstock.broker.partition import END_OF_WAITING, Partition, Surroundings
from penstock.metadata.configs import effective_topic_config
from penstock.metadata.image import PartitionImage
from penstock.replication.leader import Member
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
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
        self.failures = 0
        """How often a log has become read-only."""

    def submit(self, job: FlushJob, done: Callable[[FlushJob], None]) -> None:
        self.jobs.append((job, done))

    def failed(self) -> None:
        self.failures += 1

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


ALONE = PartitionImage(leader=1, leader_epoch=3, replicas=(1,), isr=(1,), partition_epoch=0)
OF_THREE = PartitionImage(leader=1, leader_epoch=3, replicas=(1, 2, 3), isr=(1, 2, 3), partition_epoch=0)
ALL = frozenset({1, 2, 3})


def make(image: PartitionImage = ALONE, *, min_insync: int = 1) -> tuple[Partition, ByHand]:
    """On node 1, with the start of its epoch on disk."""
    storage = MemoryStorage(uuid.uuid4())
    log = storage.open_log("t-0", uuid.uuid4(), LogConfig(), now_ms=0)
    writers = ByHand()
    surroundings = Surroundings(
        1,
        writers,  # type: ignore[arg-type]
        Metrics(),
        lambda: 1,
        lambda: 1,
        1_000,
        writers.failed,
    )
    config = effective_topic_config({"min.insync.replicas": str(min_insync)})
    partition = Partition(TopicPartition("t", 0), log.topic_id, log, image, config, ALL, surroundings)
    while writers.jobs:
        writers.finish()
    return partition, writers


def led_by(leader: int, epoch: int) -> PartitionImage:
    return OF_THREE._replace(leader=leader, leader_epoch=epoch, partition_epoch=epoch)


def fetched(partition: Partition, broker_id: int, offset: int) -> None:
    fetch = ReplicaFetch(partition.leader_epoch, offset, partition.log.epochs.latest, 0)
    partition.replica_fetched(Member(broker_id, 1), fetch)


class Answers:
    """What each that waits was told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def named(self, name: str) -> Callable[[ApiError | None], None]:
        return lambda error: self.told.append(name if error is None else f"{name}: {error.code.name}")


def append(partition: Partition, count: int = 1) -> int:
    batch = encode_batch([Record(i, 1, None, b"v") for i in range(count)])
    return partition.append(batch, read_header(batch))


def test_acknowledgements_come_with_the_flush_in_order() -> None:
    partition, writers = make()
    answers = Answers()
    told, tell = answers.told, answers.named

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
    assert writers.failures == 1


def test_a_log_that_is_given_up_is_read_only_and_its_flush_counts_for_nothing() -> None:
    partition, writers = make(OF_THREE)
    codes: list[ErrorCode | None] = []
    append(partition)
    partition.when_flushed(1, lambda error: codes.append(error.code if error else None))
    partition.give_up("a flush of t-0 has not ended for 30000 ms")
    assert codes == [ErrorCode.kafka_storage_error]
    assert writers.failures == 1
    assert partition.is_busy, "its file is not to be closed"
    writers.finish()
    assert not partition.is_busy
    assert partition.log.flushed_end_offset == 0
    with pytest.raises(ApiError, match="has not ended"):
        append(partition)


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


# Roles


def test_one_replica_is_asked_for_the_flush_and_all_for_the_high_watermark() -> None:
    partition, writers = make(OF_THREE, min_insync=2)
    answers = Answers()
    append(partition, 2)
    partition.when_committed(2, answers.named("all"))
    partition.when_flushed(2, answers.named("one"))
    assert answers.told == []
    writers.finish()
    assert (answers.told, partition.high_watermark) == (["one"], 0)
    partition.when_flushed(2, answers.named("one again"))
    fetched(partition, 2, 2)
    fetched(partition, 3, 1)
    assert (answers.told, partition.high_watermark) == (["one", "one again"], 1), "3 lacks the second record"
    fetched(partition, 3, 2)
    assert (answers.told[2:], partition.high_watermark) == (["all"], 2)


def test_followers_that_are_ahead_of_our_own_disk_commit_nothing() -> None:
    partition, writers = make(OF_THREE)
    answers = Answers()
    append(partition)
    partition.when_committed(1, answers.named("all"))
    fetched(partition, 2, 1)
    fetched(partition, 3, 1)
    assert (answers.told, partition.high_watermark) == ([], 0)
    writers.finish()
    assert (answers.told, partition.high_watermark) == (["all"], 1)


def test_who_waits_is_sent_to_the_next_leader() -> None:
    partition, writers = make(OF_THREE)
    answers = Answers()
    append(partition)
    partition.when_committed(1, answers.named("all"))
    partition.when_flushed(1, answers.named("one"))
    partition.apply(led_by(2, 4), ALL)
    assert sorted(answers.told) == ["all: not_leader_or_follower", "one: not_leader_or_follower"]
    writers.finish()
    assert len(answers.told) == 2, "what a former leader flushes is no acknowledgement"
    assert not partition.is_leader
    assert partition.follower is not None
    for when in (partition.when_committed, partition.when_flushed):
        when(0, answers.named("late"))
    assert answers.told[2:] == ["late: not_leader_or_follower"] * 2
    with pytest.raises(ApiError) as caught:
        append(partition)
    assert caught.value.code == ErrorCode.not_leader_or_follower


def test_another_epoch_of_the_same_leader_promises_nothing_of_the_last() -> None:
    partition, writers = make(OF_THREE)
    answers = Answers()
    append(partition)
    partition.when_committed(1, answers.named("all"))
    partition.apply(led_by(1, 5), ALL)
    assert answers.told == ["all: not_leader_or_follower"]
    assert partition.log.epochs.latest == 5
    writers.finish()
    assert partition.is_leader
    fetched(partition, 2, 1)
    fetched(partition, 3, 1)
    assert (answers.told, partition.high_watermark) == (["all: not_leader_or_follower"], 1)


def test_who_waits_goes_on_waiting_in_the_next_epoch_of_the_same_leader() -> None:
    """The end of a replica begins an epoch, and nothing that was appended is in doubt."""
    partition, writers = make(OF_THREE)
    answers = Answers()
    watcher = Watcher()
    partition.add_reader(watcher)
    append(partition)
    partition.when_committed(1, answers.named("all"))
    partition.when_flushed(1, answers.named("one"))
    fetched(partition, 2, 1)
    partition.apply(led_by(1, 4), ALL)
    assert answers.told == []
    while writers.jobs:
        writers.finish()
    assert answers.told == ["one"]
    fetched(partition, 3, 1)
    assert answers.told == ["one"], "what 2 said in another epoch does not count"
    fetched(partition, 2, 1)
    assert (answers.told, partition.high_watermark) == (["one", "all"], 1)
    assert watcher.sizes[-1] > 0, "readers hear how much they can read"
    partition.apply(led_by(2, 5), ALL)
    partition.apply(led_by(1, 6), ALL)
    assert answers.told == ["one", "all"]


def test_without_a_leader_nobody_is_followed() -> None:
    partition, _ = make(OF_THREE)
    partition.apply(led_by(-1, 4), ALL)
    assert partition.leader is None
    assert partition.follower is None
    for check in (partition.check_is_leader, partition.check_serves_offsets):
        with pytest.raises(ApiError) as caught:
            check()
        assert caught.value.code == ErrorCode.not_leader_or_follower


def test_what_is_older_than_what_is_known_changes_nothing() -> None:
    partition, _ = make(led_by(1, 4))
    partition.apply(led_by(2, 3), ALL)
    assert (partition.is_leader, partition.leader_epoch) == (True, 4)


def test_a_smaller_in_sync_set_may_commit_what_waits() -> None:
    partition, writers = make(OF_THREE, min_insync=2)
    answers = Answers()
    append(partition)
    partition.when_committed(1, answers.named("all"))
    writers.finish()
    fetched(partition, 2, 1)
    assert answers.told == []
    partition.apply(OF_THREE._replace(isr=(1, 2), partition_epoch=1), ALL)
    assert (answers.told, partition.high_watermark) == (["all"], 1)


def test_whether_there_are_enough_replicas() -> None:
    partition, _ = make(OF_THREE, min_insync=2)
    assert partition.has_enough_replicas
    partition.brokers_changed({1})
    assert not partition.has_enough_replicas, "two are in sync, and dead"
    partition.brokers_changed({1, 3})
    assert partition.has_enough_replicas
    partition.apply(OF_THREE._replace(isr=(1,), partition_epoch=1), ALL)
    assert not partition.has_enough_replicas
    partition.apply(led_by(2, 4), ALL)
    assert not partition.has_enough_replicas, "that is for the leader to know"


def test_a_smaller_minimum_counts_at_once() -> None:
    """Alone, as after a move to one replica, it would get no fetch that has its replicas counted again."""
    partition, _ = make(OF_THREE, min_insync=2)
    partition.apply(OF_THREE._replace(replicas=(1,), isr=(1,), partition_epoch=1), ALL)
    assert not partition.has_enough_replicas
    partition.reconfigure(effective_topic_config({"min.insync.replicas": "1"}))
    assert partition.has_enough_replicas


def test_records_of_the_broker_itself_need_enough_replicas() -> None:
    async def scenario() -> None:
        partition, _ = make(OF_THREE, min_insync=2)
        partition.brokers_changed({1})
        with pytest.raises(ApiError) as caught:
            await partition.append_own(encode_batch([Record(0, 1, b"k", b"v")]))
        assert caught.value.code == ErrorCode.not_enough_replicas
        assert partition.log.log_end_offset == 0

    asyncio.run(scenario())


def test_a_new_leader_tells_no_offsets_before_all_of_earlier_epochs_is_committed() -> None:
    partition, writers = make(led_by(2, 3))
    batch = encode_batch([Record(0, 1, None, b"v")])
    partition.log.append(batch, read_header(batch), leader_epoch=3, now_ms=1)
    partition.log.flush()
    partition.apply(led_by(1, 4), ALL)
    while writers.jobs:
        writers.finish()
    with pytest.raises(ApiError) as caught:
        partition.check_serves_offsets()
    assert caught.value.code == ErrorCode.offset_not_available
    fetched(partition, 2, 1)
    fetched(partition, 3, 1)
    partition.check_serves_offsets()


def test_readers_are_woken_when_the_role_changes() -> None:
    partition, _ = make(OF_THREE)
    watcher, replica = Watcher(), Watcher()
    partition.add_reader(watcher)
    partition.add_reader(replica, is_replica=True)
    partition.apply(led_by(2, 4), ALL)
    assert (watcher.sizes, replica.sizes) == ([END_OF_WAITING], [END_OF_WAITING])


def test_replicas_hear_of_what_is_flushed_and_others_of_what_is_committed() -> None:
    partition, writers = make(OF_THREE)
    watcher, replica = Watcher(), Watcher()
    partition.add_reader(watcher)
    partition.add_reader(replica, is_replica=True)
    append(partition)
    assert (watcher.sizes, replica.sizes) == ([], [])
    writers.finish()
    assert (watcher.sizes, len(replica.sizes)) == ([], 1)
    fetched(partition, 2, 1)
    fetched(partition, 3, 1)
    assert (watcher.sizes, len(replica.sizes)) == ([partition.log.size_bytes], 2)
    partition.remove_reader(replica)
    append(partition)
    writers.finish()
    assert len(replica.sizes) == 2


def test_a_follower_tells_its_readers_of_the_high_watermark() -> None:
    partition, _ = make(led_by(2, 3))
    watcher = Watcher()
    partition.add_reader(watcher)
    batch = encode_batch([Record(0, 1, None, b"v")])
    partition.log.append(batch, read_header(batch), leader_epoch=3, now_ms=1)
    partition.log.flush()
    follower = partition.follower
    assert follower is not None
    follower.answered(ReplicaAnswer(high_watermark=1, log_start_offset=0))
    assert partition.high_watermark == 0
    partition.follower_moved()
    assert (partition.high_watermark, watcher.sizes) == (1, [END_OF_WAITING])


def test_what_was_committed_stays_readable_through_changes_of_the_role() -> None:
    partition, writers = make(OF_THREE)
    append(partition)
    writers.finish()
    fetched(partition, 2, 1)
    fetched(partition, 3, 1)
    for image in (led_by(2, 4), led_by(-1, 5), led_by(1, 6)):
        partition.apply(image, ALL)
        assert partition.high_watermark == 1


def test_a_closed_partition_takes_no_role_any_more() -> None:
    async def scenario() -> None:
        partition, writers = make(led_by(2, 3))
        await partition.drain()
        partition.apply(led_by(1, 4), ALL)
        assert (partition.leader, partition.follower, writers.jobs) == (None, None, [])

    asyncio.run(scenario())
