"""How long a produce request waits, and for whom: followers fetch when the test says so."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.broker.refused_batches import KEPT_MS
from penstock.replication.leader import Member
from penstock.replication.replica_fetch import ReplicaFetch
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import TRANSACTIONAL
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import InProcess, eventually, with_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from penstock.broker.partition import Partition
    from penstock.broker.verifications import WhenVerified
    from penstock.wire.batch import BatchHeader

PRODUCE, CREATE_TOPICS = 0, 19
OK, TIMED_OUT = ErrorCode.none, ErrorCode.request_timed_out
SHORT, LONG = timedelta(milliseconds=30), timedelta(seconds=60)


async def produce(client: InProcess, *topics: str, acks: int = -1, wait_max: timedelta = LONG) -> list[Any]:
    """The answer of partition 0 of each topic."""
    records = encode_batch([Record(0, 1, None, b"v")])
    data = [{"name": each, "partition_data": [{"index": 0, "records": records}]} for each in topics]
    answer = await client.ask(PRODUCE, 9, {"acks": acks, "timeout": wait_max, "topic_data": data})
    return [each.partition_responses[0] for each in answer.responses]


async def create(client: InProcess, name: str) -> Partition:
    await client.ask(
        CREATE_TOPICS, 7, {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}]}
    )
    return client.broker.partitions.require(name, 0)


async def create_replicated(client: InProcess, name: str) -> Partition:
    """With broker 2 in sync, of which nobody has heard."""
    partition = await create(client, name)
    image = partition.image._replace(
        replicas=(1, 2), isr=(1, 2), partition_epoch=partition.image.partition_epoch + 1
    )
    partition.apply(image, live={1, 2})
    return partition


def fetched(partition: Partition, offset: int) -> None:
    fetch = ReplicaFetch(partition.leader_epoch, offset, partition.log.epochs.latest, 0)
    partition.replica_fetched(Member(2, 1), fetch)


def test_acks_all_times_out_when_the_follower_does_not_fetch() -> None:
    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        (answer,) = await produce(client, "t", wait_max=SHORT)
        assert (answer.error_code, answer.base_offset) == (TIMED_OUT, -1)
        assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0), "what is appended stays"
        (answer,) = await produce(client, "t", wait_max=timedelta(0))
        assert answer.error_code is TIMED_OUT
        await eventually(lambda: partition.log.flushed_end_offset == 2)
        fetched(partition, 2)
        assert partition.high_watermark == 2, "whoever came too late is not told twice"

    with_broker(work)


def test_acks_all_is_answered_by_the_fetch_that_commits() -> None:
    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        asking = asyncio.create_task(produce(client, "t"))
        await eventually(lambda: partition.log.flushed_end_offset == 1)
        assert not asking.done()
        fetched(partition, 1)
        (answer,) = await asking
        assert (answer.error_code, answer.base_offset) == (OK, 0)

    with_broker(work)


def test_acks_one_does_not_wait_for_the_follower() -> None:
    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        (answer,) = await produce(client, "t", acks=1, wait_max=timedelta(0))
        assert (answer.error_code, answer.base_offset) == (OK, 0)
        assert (partition.log.flushed_end_offset, partition.high_watermark) == (1, 0)

    with_broker(work)


def test_each_partition_of_a_request_times_out_for_itself() -> None:
    async def work(client: InProcess) -> None:
        await create(client, "alone")
        fetches = await create_replicated(client, "fetches")
        await create_replicated(client, "silent")
        asking = asyncio.create_task(
            produce(client, "alone", "fetches", "silent", wait_max=timedelta(seconds=1))
        )
        await eventually(lambda: fetches.log.flushed_end_offset == 1)
        fetched(fetches, 1)
        codes = [answer.error_code for answer in await asking]
        assert codes == [OK, OK, TIMED_OUT]

    with_broker(work)


def test_our_own_disk_is_waited_for_however_long_it_takes() -> None:
    async def work(client: InProcess) -> None:
        await create(client, "t")
        (answer,) = await produce(client, "t", wait_max=timedelta(0))
        assert (answer.error_code, answer.base_offset) == (OK, 0)

    with_broker(work)


def test_too_few_replicas_alive() -> None:
    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        assert partition.leader is not None
        partition.leader.min_insync_replicas = 2
        partition.brokers_changed({1})
        (answer,) = await produce(client, "t")
        assert answer.error_code is ErrorCode.not_enough_replicas
        assert "t-0 has too few in-sync replicas alive: [1, 2]" in answer.error_message
        assert partition.log.log_end_offset == 0
        (answer,) = await produce(client, "t", acks=1)
        assert answer.error_code is OK, "acks=1 asks for no others"

    with_broker(work)


def test_a_new_leader_ends_the_wait() -> None:
    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        asking = asyncio.create_task(produce(client, "t"))
        await eventually(lambda: partition.log.flushed_end_offset == 1)
        image = partition.image
        partition.apply(
            image._replace(
                leader=2, leader_epoch=image.leader_epoch + 1, partition_epoch=image.partition_epoch + 1
            ),
            live={1, 2},
        )
        (answer,) = await asking
        assert answer.error_code is ErrorCode.not_leader_or_follower
        (answer,) = await produce(client, "t", acks=1)
        assert answer.error_code is ErrorCode.not_leader_or_follower

    with_broker(work)


def led_by(partition: Partition, broker: int) -> None:
    image = partition.image
    partition.apply(
        image._replace(
            leader=broker, leader_epoch=image.leader_epoch + 1, partition_epoch=image.partition_epoch + 1
        ),
        live={1, 2},
    )


async def send_sequence(
    client: InProcess, sequence: int, *, attributes: int = 0, acks: int = 1, wait_max: timedelta = LONG
) -> ErrorCode:
    """A batch of five of an idempotent producer."""
    records = encode_batch(
        [Record(offset, 1, None, b"v") for offset in range(5)],
        attributes=attributes,
        producer_id=9,
        producer_epoch=0,
        base_sequence=sequence,
    )
    data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
    body = {"transactional_id": "mine", "acks": acks, "timeout": wait_max, "topic_data": data}
    answer = await client.ask(PRODUCE, 9, body)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_of_batches_on_their_way_to_a_new_leader_none_overtakes_the_first() -> None:
    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        led_by(partition, 2)
        assert await send_sequence(client, 0) is ErrorCode.not_leader_or_follower
        led_by(partition, 1)
        assert await send_sequence(client, 5) is ErrorCode.not_leader_or_follower, "it was behind"
        assert partition.log.log_end_offset == 0
        assert [await send_sequence(client, each) for each in (0, 5, 10)] == [OK] * 3
        assert await send_sequence(client, 20) is ErrorCode.out_of_order_sequence_number
        led_by(partition, 2)
        assert await send_sequence(client, 15) is ErrorCode.not_leader_or_follower
        led_by(partition, 1)
        assert await send_sequence(client, 20) is ErrorCode.not_leader_or_follower
        assert [await send_sequence(client, each) for each in (10, 15, 20)] == [OK] * 3
        assert partition.log.log_end_offset == 25

    with_broker(work)


def test_nor_does_one_overtake_while_the_partition_is_being_opened() -> None:
    async def work(client: InProcess) -> None:
        partition = await create(client, "t")
        opened = client.broker.partitions._partitions
        del opened["t", 0]
        assert await send_sequence(client, 0) is ErrorCode.not_leader_or_follower
        opened["t", 0] = partition
        assert await send_sequence(client, 5) is ErrorCode.not_leader_or_follower
        assert [await send_sequence(client, each) for each in (0, 5, 10)] == [OK] * 3

    with_broker(work)


def test_nor_does_one_overtake_whose_topic_was_not_known_yet() -> None:
    async def work(client: InProcess) -> None:
        assert await send_sequence(client, 0) is ErrorCode.unknown_topic_or_partition
        await create(client, "t")
        assert await send_sequence(client, 5) is ErrorCode.unknown_topic_or_partition
        assert [await send_sequence(client, each) for each in (0, 5, 10)] == [OK] * 3

    with_broker(work)


def test_nor_does_one_overtake_whose_coordinator_did_not_answer() -> None:
    async def work(client: InProcess) -> None:
        await create(client, "t")
        answers: list[ApiError | None] = [ApiError(ErrorCode.coordinator_not_available)]
        verified_by(client, lambda tell: tell(answers.pop() if answers else None))
        codes = [await send_sequence(client, each, attributes=TRANSACTIONAL) for each in (0, 5)]
        assert codes == [ErrorCode.not_enough_replicas] * 2
        codes = [await send_sequence(client, each, attributes=TRANSACTIONAL) for each in (0, 5)]
        assert codes == [OK] * 2

    with_broker(work)


def test_a_clock_that_is_set_back_keeps_no_batch_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        led_by(partition, 2)
        assert await send_sequence(client, 0) is ErrorCode.not_leader_or_follower
        led_by(partition, 1)
        now_ms = client.broker.monotonic_ms()
        monkeypatch.setattr(client.broker, "now_ms", lambda: 0)
        monkeypatch.setattr(client.broker, "monotonic_ms", lambda: now_ms + KEPT_MS)
        assert await send_sequence(client, 5) is OK, "a producer that nobody knows, and nothing else"

    with_broker(work)


def test_who_is_behind_a_refused_batch_does_not_keep_itself_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first may never come again, and the others come again and again."""

    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        led_by(partition, 2)
        assert await send_sequence(client, 0) is ErrorCode.not_leader_or_follower
        led_by(partition, 1)
        now_ms = client.broker.monotonic_ms()
        monkeypatch.setattr(client.broker, "monotonic_ms", lambda: now_ms + KEPT_MS // 2)
        assert await send_sequence(client, 5) is ErrorCode.not_leader_or_follower
        monkeypatch.setattr(client.broker, "monotonic_ms", lambda: now_ms + KEPT_MS)
        assert await send_sequence(client, 5) is OK

    with_broker(work)


def verified_by(client: InProcess, ask: Callable[[WhenVerified], object]) -> None:
    def verify(_partition: Partition, _id: str | None, _header: BatchHeader, verified: WhenVerified) -> None:
        ask(verified)

    client.broker.transactions.verify_batch = verify  # type: ignore[method-assign]


def test_a_batch_that_begins_a_transaction_times_out_as_any_other() -> None:
    """It waits for its coordinator first, and for the followers then."""

    async def work(client: InProcess) -> None:
        partition = await create_replicated(client, "t")
        loop = asyncio.get_running_loop()
        for delay_s in (0.01, 0.1):  # before the time is over, and after
            verified_by(client, lambda tell, delay_s=delay_s: loop.call_later(delay_s, tell, None))  # type: ignore[misc]
            begun = partition.log.log_end_offset
            async with asyncio.timeout(10):
                code = await send_sequence(
                    client, begun, attributes=TRANSACTIONAL, acks=-1, wait_max=timedelta(milliseconds=50)
                )
            assert code is TIMED_OUT
            assert partition.log.log_end_offset == begun + 5, "what is appended stays"
            partition.log.producers.transactions.open.clear()

    with_broker(work)
