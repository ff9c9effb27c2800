"""Fetch: waiting for data, limits, and fairness between partitions."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.types import ErrorCode
from tests.support.raw import (
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    RECENT_MS,
    RawClient,
    all_records,
    fetch_body,
    make_batch,
    split_batches,
)

LONG_MS = 10_000


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    raw.create_topic(topic, partitions=8)
    return topic


def test_an_empty_fetch_returns_at_max_wait(raw: RawClient, topic: str) -> None:
    before = time.monotonic()
    answer = raw.fetch(topic, 0, max_wait_ms=300)
    waited_s = time.monotonic() - before
    assert (answer.error_code, len(answer.records or b"")) == (ErrorCode.none, 0)
    # Not earlier: that would be a busy client. How much later is for the benchmarks to say.
    assert waited_s >= 0.29


def test_a_fetch_that_may_not_wait_does_not(raw: RawClient, topic: str) -> None:
    answer = raw.fetch(topic, 0, max_wait_ms=0)
    assert (answer.error_code, len(answer.records or b"")) == (ErrorCode.none, 0)


def test_a_waiting_fetch_wakes_on_new_data(raw: RawClient, bootstrap: str, topic: str) -> None:
    raw.send(FETCH, 12, fetch_body(topic, dict.fromkeys(range(8), 0), max_wait_ms=LONG_MS))
    assert raw.is_silent(0.2)
    before = time.monotonic()
    with RawClient(bootstrap) as producer:
        producer.produce(topic, make_batch([b"news"]), partition=5)
    _, answer = raw.receive(FETCH, 12)
    assert time.monotonic() - before < LONG_MS / 1_000 / 2
    [found] = [part for part in answer.responses[0].partitions if part.records]
    assert found.partition_index == 5
    assert [record.value for record in all_records(found.records)] == [b"news"]


def test_min_bytes_makes_a_fetch_wait_for_more(raw: RawClient, bootstrap: str, topic: str) -> None:
    batch = make_batch([bytes(1_000)])
    raw.send(FETCH, 12, fetch_body(topic, {0: 0, 1: 0}, max_wait_ms=LONG_MS, min_bytes=2 * len(batch) + 1))
    with RawClient(bootstrap) as producer:
        producer.produce(topic, batch, partition=0)
        producer.produce(topic, batch, partition=1)
        assert raw.is_silent(0.2)
        producer.produce(topic, batch, partition=0)
    _, answer = raw.receive(FETCH, 12)
    counts = {part.partition_index: len(all_records(part.records)) for part in answer.responses[0].partitions}
    assert counts == {0: 2, 1: 1}


def test_min_bytes_gives_up_at_max_wait_with_what_there_is(raw: RawClient, topic: str) -> None:
    raw.produce(topic, make_batch([b"a"]))
    before = time.monotonic()
    answer = raw.fetch(topic, 0, max_wait_ms=300, min_bytes=1_000_000)
    assert time.monotonic() - before >= 0.29
    assert [record.value for record in all_records(answer.records)] == [b"a"]


def test_an_offset_out_of_range_in_one_partition_does_not_wait(raw: RawClient, topic: str) -> None:
    before = time.monotonic()
    answer = raw.request(FETCH, 12, fetch_body(topic, {0: 0, 1: 7}, max_wait_ms=LONG_MS))
    assert time.monotonic() - before < LONG_MS / 1_000 / 2
    errors = {part.partition_index: part.error_code for part in answer.responses[0].partitions}
    assert errors == {0: ErrorCode.none, 1: ErrorCode.offset_out_of_range}


def test_an_unknown_partition_beside_a_known_one(raw: RawClient, topic: str) -> None:
    raw.produce(topic, make_batch([b"a"]))
    answer = raw.request(FETCH, 12, fetch_body(topic, {0: 0, 99: 0}))
    errors = {part.partition_index: part.error_code for part in answer.responses[0].partitions}
    assert errors == {0: ErrorCode.none, 99: ErrorCode.unknown_topic_or_partition}


@pytest.mark.parametrize("offset", [-5, 4, 1_000])
def test_an_offset_out_of_range(raw: RawClient, topic: str, offset: int) -> None:
    raw.produce(topic, make_batch([b"a", b"b", b"c"]))
    assert raw.fetch(topic, offset, max_wait_ms=0).error_code is ErrorCode.offset_out_of_range


def test_the_end_of_the_log_is_in_range(raw: RawClient, topic: str) -> None:
    raw.produce(topic, make_batch([b"a", b"b", b"c"]))
    answer = raw.fetch(topic, 3, max_wait_ms=0)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.none, 3)
    assert not answer.records


def test_a_partition_limit_returns_whole_batches(raw: RawClient, topic: str) -> None:
    """At least one, whatever the limit; as many as fit beyond it. A partial last one is allowed to Kafka."""
    batch = make_batch([bytes(1_000)])
    for _ in range(5):
        raw.produce(topic, batch)
    for limit, expected in ((1, 1), (len(batch), 1), (2 * len(batch) + 1, 2), (100_000, 5)):
        answer = raw.fetch(topic, 0, partition_max_bytes=limit)
        offsets = [header.base_offset for header, _ in split_batches(answer.records)]
        assert offsets == list(range(expected)), limit


def test_many_partitions_all_make_progress_with_a_small_max_bytes(raw: RawClient, topic: str) -> None:
    """Room for about two batches per answer, eight partitions: nobody starves."""
    batch = make_batch([bytes(1_000)])
    rounds = 4
    for partition in range(8):
        for _ in range(rounds):
            raw.produce(topic, batch, partition=partition)
    offsets = dict.fromkeys(range(8), 0)
    fetches = 0
    first_progress: dict[int, int] = {}
    while min(offsets.values()) < rounds:
        fetches += 1
        assert fetches <= 8 * rounds + 8, offsets
        # Clients that Kafka has no session with send the partitions they waited for longest first.
        order = sorted(offsets, key=lambda partition: offsets[partition])
        body = fetch_body(topic, {p: offsets[p] for p in order}, max_bytes=2_200, partition_max_bytes=2_200)
        answer = raw.request(FETCH, 12, body)
        for part in answer.responses[0].partitions:
            for header, _ in split_batches(part.records):
                assert header.base_offset == offsets[part.partition_index]
                offsets[part.partition_index] = header.next_offset
                first_progress.setdefault(part.partition_index, fetches)
    assert set(offsets.values()) == {rounds}
    assert max(first_progress.values()) <= 8


def test_waiting_fetches_do_not_hold_up_other_connections(raw: RawClient, bootstrap: str, topic: str) -> None:
    waiters = [RawClient(bootstrap) for _ in range(50)]
    try:
        for waiter in waiters:
            waiter.send(FETCH, 12, fetch_body(topic, {0: 0}, max_wait_ms=LONG_MS))
        before = time.monotonic()
        assert raw.produce(topic, make_batch([b"b"]), partition=1).error_code is ErrorCode.none
        assert raw.produce(topic, make_batch([b"a"]), partition=0).error_code is ErrorCode.none
        answers = [waiter.receive(FETCH, 12)[1] for waiter in waiters]
        assert time.monotonic() - before < LONG_MS / 1_000 / 2
        for answer in answers:
            assert [record.value for record in all_records(answer.responses[0].partitions[0].records)] == [
                b"a"
            ]
    finally:
        for waiter in waiters:
            waiter.socket.close()


def test_a_client_that_goes_away_while_it_waits(raw: RawClient, bootstrap: str, topic: str) -> None:
    with RawClient(bootstrap) as leaver:
        leaver.send(FETCH, 12, fetch_body(topic, {0: 0}, max_wait_ms=LONG_MS))
    assert raw.produce(topic, make_batch([b"a"])).error_code is ErrorCode.none
    assert [record.value for record in all_records(raw.fetch(topic, 0).records)] == [b"a"]


def test_readers_follow_a_writer_without_gaps(bootstrap: str, topic: str) -> None:
    """Two long-polling readers see every batch of a busy writer once and in order."""
    count = 300
    seen: list[list[bytes | None]] = [[], []]

    def follow(values: list[bytes | None]) -> None:
        with RawClient(bootstrap) as reader:
            while len(values) < count:
                answer = reader.fetch(topic, len(values), max_wait_ms=1_000)
                assert answer.error_code is ErrorCode.none
                values += [r.value for r in all_records(answer.records) if r.offset >= len(values)]

    readers = [threading.Thread(target=follow, args=(values,)) for values in seen]
    for reader in readers:
        reader.start()
    with RawClient(bootstrap) as writer:
        for index in range(count):
            writer.send_produce(topic, make_batch([b"%d" % index]))
        for _ in range(count):
            assert writer.receive_produced().error_code is ErrorCode.none
    for reader in readers:
        reader.join(30)
    assert seen == [[b"%d" % index for index in range(count)]] * 2


def test_a_stale_or_future_leader_epoch_is_told(raw: RawClient, topic: str) -> None:
    raw.produce(topic, make_batch([b"a"]))
    body = fetch_body(topic, {0: 0}, max_wait_ms=0)
    body["topics"][0]["partitions"][0]["current_leader_epoch"] = 1_000
    answer = raw.request(FETCH, 12, body)
    assert answer.responses[0].partitions[0].error_code is ErrorCode.unknown_leader_epoch


def test_the_end_of_a_leader_epoch(raw: RawClient, topic: str) -> None:
    raw.produce(topic, make_batch([b"a", b"b"]))
    epoch = split_batches(raw.fetch(topic, 0).records)[0][0].partition_leader_epoch
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    for version in (2, 3, 4):
        body = {"topics": [{"topic": topic, "partitions": [partition]}]}
        if version >= 3:
            body["replica_id"] = -2
        answer = raw.request(OFFSET_FOR_LEADER_EPOCH, version, body)
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.leader_epoch, result.end_offset) == (ErrorCode.none, epoch, 2)


def test_list_offsets(raw: RawClient, topic: str) -> None:
    start = RECENT_MS
    raw.produce(topic, make_batch([b"a", b"b", b"c"], timestamp=start, step_ms=10))
    raw.produce(topic, make_batch([b"d"], timestamp=start + 100))
    raw.produce(topic, make_batch([b"e"], timestamp=start + 50))
    for version in range(1, 8):
        found = [raw_offset(raw, topic, start + delta, version) for delta in (-1, 0, 1, 10, 21, 100, 101)]
        assert found == [0, 0, 1, 1, 3, 3, -1], version
        assert raw_offset(raw, topic, -1, version) == 5
        assert raw_offset(raw, topic, -2, version) == 0
    newest = raw.list_offset(topic, -3)
    assert (newest.offset, newest.timestamp) == (3, start + 100)


def test_list_offsets_of_an_empty_partition(raw: RawClient, topic: str) -> None:
    assert [raw.list_offset(topic, timestamp).offset for timestamp in (-1, -2, -3, 0)] == [0, 0, -1, -1]


def raw_offset(raw: RawClient, topic: str, timestamp: int, version: int) -> int:
    partition = {"partition_index": 0, "timestamp": timestamp}
    if version >= 4:
        partition["current_leader_epoch"] = -1
    answer = raw.request(
        LIST_OFFSETS, version, {"replica_id": -1, "topics": [{"name": topic, "partitions": [partition]}]}
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
    return answer.topics[0].partitions[0].offset
