"""Idempotent producers on the wire: duplicates, gaps, epochs, five batches in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.types import ErrorCode
from tests.support.raw import RawClient, all_records, make_batch, read_all

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def batch_of(raw: RawClient, topic: str) -> Callable[..., bytes]:
    """Batches of one fresh producer; creates the topic."""
    raw.create_topic(topic, partitions=2)
    producer_id, _ = raw.init_producer_id()

    def make(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = producer_id) -> bytes:
        return make_batch(values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

    return make


def values_in(raw: RawClient, topic: str, *, partition: int = 0) -> list[bytes | None]:
    batches = read_all(raw, topic, partition=partition)
    return [record.value for _, batch in batches for record in all_records(batch)]


def test_a_duplicate_answers_with_the_original_offset(
    raw: RawClient, topic: str, batch_of: Callable[..., bytes]
) -> None:
    first = raw.produce(topic, batch_of(0, b"a", b"b"))
    second = raw.produce(topic, batch_of(2, b"c"))
    again = raw.produce(topic, batch_of(0, b"a", b"b"))
    assert [answer.error_code for answer in (first, second, again)] == [ErrorCode.none] * 3
    assert [answer.base_offset for answer in (first, second, again)] == [0, 2, 0]
    assert values_in(raw, topic) == [b"a", b"b", b"c"]


def test_a_duplicate_over_another_connection(
    raw: RawClient, bootstrap: str, topic: str, batch_of: Callable[..., bytes]
) -> None:
    raw.produce(topic, batch_of(0, b"a"))
    with RawClient(bootstrap) as other:
        again = other.produce(topic, batch_of(0, b"a"))
    assert (again.error_code, again.base_offset) == (ErrorCode.none, 0)
    assert values_in(raw, topic) == [b"a"]


def test_duplicates_in_the_pipeline(raw: RawClient, topic: str, batch_of: Callable[..., bytes]) -> None:
    """The duplicate arrives before the original is acknowledged, and is acknowledged only with it."""
    sent = [batch_of(0, b"a"), batch_of(0, b"a"), batch_of(1, b"b"), batch_of(1, b"b"), batch_of(0, b"a")]
    for batch in sent:
        raw.send_produce(topic, batch)
    answers = [raw.receive_produced() for _ in sent]
    assert [answer.error_code for answer in answers] == [ErrorCode.none] * 5
    assert [answer.base_offset for answer in answers] == [0, 0, 1, 1, 0]
    assert values_in(raw, topic) == [b"a", b"b"]


def test_five_batches_in_flight_are_all_remembered(
    raw: RawClient, topic: str, batch_of: Callable[..., bytes]
) -> None:
    batches = [batch_of(sequence, b"%d" % sequence) for sequence in range(5)]
    for batch in batches + batches:
        raw.send_produce(topic, batch)
    answers = [raw.receive_produced() for _ in range(10)]
    assert [answer.error_code for answer in answers] == [ErrorCode.none] * 10
    assert [answer.base_offset for answer in answers] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert values_in(raw, topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_an_older_duplicate_is_never_stored_again(
    raw: RawClient, topic: str, batch_of: Callable[..., bytes]
) -> None:
    for sequence in range(10):
        raw.produce(topic, batch_of(sequence, b"%d" % sequence))
    forgotten = raw.produce(topic, batch_of(0, b"0"))
    assert forgotten.error_code in (
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.duplicate_sequence_number,
    )
    assert raw.end_offset(topic) == 10


def test_a_gap_is_out_of_order_and_can_be_filled(
    raw: RawClient, topic: str, batch_of: Callable[..., bytes]
) -> None:
    raw.produce(topic, batch_of(0, b"a"))
    gap = raw.produce(topic, batch_of(2, b"c"))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    assert raw.produce(topic, batch_of(1, b"b")).base_offset == 1
    assert raw.produce(topic, batch_of(2, b"c")).base_offset == 2
    assert values_in(raw, topic) == [b"a", b"b", b"c"]


def test_a_gap_fails_everything_behind_it_in_the_pipeline(
    raw: RawClient, topic: str, batch_of: Callable[..., bytes]
) -> None:
    for sequence in (0, 2, 3, 1):
        raw.send_produce(topic, batch_of(sequence, b"%d" % sequence))
    answers = [raw.receive_produced() for _ in range(4)]
    assert [answer.error_code for answer in answers] == [
        ErrorCode.none,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.none,
    ]
    assert values_in(raw, topic) == [b"0", b"1"]


def test_a_newer_epoch_starts_at_sequence_zero(
    raw: RawClient, topic: str, batch_of: Callable[..., bytes]
) -> None:
    raw.produce(topic, batch_of(0, b"a"))
    not_zero = raw.produce(topic, batch_of(1, b"b", epoch=1))
    assert not_zero.error_code is ErrorCode.out_of_order_sequence_number
    assert raw.produce(topic, batch_of(0, b"b", epoch=1)).base_offset == 1
    assert values_in(raw, topic) == [b"a", b"b"]


def test_an_older_epoch_is_fenced(raw: RawClient, topic: str, batch_of: Callable[..., bytes]) -> None:
    raw.produce(topic, batch_of(0, b"a"))
    raw.produce(topic, batch_of(0, b"b", epoch=1))
    fenced = raw.produce(topic, batch_of(1, b"c"))
    assert fenced.error_code is ErrorCode.invalid_producer_epoch
    assert values_in(raw, topic) == [b"a", b"b"]


def test_sequences_are_per_partition(raw: RawClient, topic: str, batch_of: Callable[..., bytes]) -> None:
    assert raw.produce(topic, batch_of(0, b"a"), partition=0).base_offset == 0
    assert raw.produce(topic, batch_of(0, b"b"), partition=1).base_offset == 0
    assert values_in(raw, topic, partition=0) == [b"a"]
    assert values_in(raw, topic, partition=1) == [b"b"]


def test_sequences_wrap_around(raw: RawClient, topic: str, batch_of: Callable[..., bytes]) -> None:
    largest = 2**31 - 1
    # A producer that the partition does not know may begin anywhere: its state may have expired.
    assert raw.produce(topic, batch_of(largest - 1, b"a", b"b")).error_code is ErrorCode.none
    assert raw.produce(topic, batch_of(0, b"c")).base_offset == 2
    assert raw.produce(topic, batch_of(largest - 1, b"a", b"b")).base_offset == 0
    assert values_in(raw, topic) == [b"a", b"b", b"c"]


def test_producer_ids_are_never_given_twice(raw: RawClient, bootstrap: str) -> None:
    with RawClient(bootstrap) as other:
        given = [client.init_producer_id() for _ in range(20) for client in (raw, other)]
    assert len({producer_id for producer_id, _ in given}) == 40
    assert {epoch for _, epoch in given} == {0}


def test_producers_do_not_disturb_each_other(
    raw: RawClient, topic: str, batch_of: Callable[..., bytes]
) -> None:
    other_id, _ = raw.init_producer_id()
    for sequence in range(3):
        assert raw.produce(topic, batch_of(sequence, b"mine")).error_code is ErrorCode.none
        answer = raw.produce(topic, batch_of(sequence, b"other", producer_id=other_id))
        assert answer.error_code is ErrorCode.none
    assert values_in(raw, topic) == [b"mine", b"other"] * 3
