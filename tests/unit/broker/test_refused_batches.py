"""A batch behind one that was refused is refused, too."""

from __future__ import annotations

import pytest

from penstock.broker.refused_batches import KEPT_MAX, KEPT_MS, RefusedBatches
from penstock.storage.producers import SEQUENCE_MASK
from penstock.types import ErrorCode
from penstock.wire.batch import BatchHeader, read_header
from penstock.wire.records import Record, encode_batch

NOT_LEADER, TOO_FEW = ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas
NOW = 1_000_000
PLACE = ("orders", 3)


def batch(sequence: int, producer: int = 7, epoch: int = 0) -> BatchHeader:
    header = read_header(encode_batch([Record(0, 1, None, b"v")]))
    return header._replace(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def refused(*headers: BatchHeader) -> RefusedBatches:
    batches = RefusedBatches()
    for header in headers:
        batches.refused(PLACE, header, NOT_LEADER, NOW)
    return batches


def test_what_is_behind_waits_for_the_first() -> None:
    batches = refused(batch(10), batch(15))
    for header in (batch(15), batch(20)):
        assert batches.blocking(PLACE, header, 10, NOW) is NOT_LEADER
        assert batches.blocking(PLACE, header, None, NOW) is NOT_LEADER, "nobody knows the producer here"
    assert batches.blocking(PLACE, batch(10), 10, NOW) is None
    batches.accepted(PLACE, batch(10))
    assert batches.blocking(PLACE, batch(15), 15, NOW) is None
    assert not batches


def test_the_earliest_counts_whatever_came_first() -> None:
    batches = refused(batch(15), batch(10))
    assert batches.blocking(PLACE, batch(15), 10, NOW) is NOT_LEADER
    assert batches.blocking(PLACE, batch(10), 10, NOW) is None


def test_of_those_that_were_refused_some_may_be_in_the_log_already() -> None:
    batches = refused(batch(5), batch(10))
    assert batches.blocking(PLACE, batch(15), 10, NOW) is NOT_LEADER
    assert batches.blocking(PLACE, batch(5), 10, NOW) is None, "a duplicate"
    assert batches.blocking(PLACE, batch(10), 10, NOW) is None


def test_what_another_leader_has_written_meanwhile_is_not_waited_for() -> None:
    batches = refused(batch(10))
    assert batches.blocking(PLACE, batch(40), 40, NOW) is None
    assert batches.blocking(PLACE, batch(45), 40, NOW) is None, "that is out of order for another reason"


def test_other_producers_epochs_and_times() -> None:
    batches = refused(batch(10))
    assert batches.blocking(PLACE, batch(15, producer=8), None, NOW) is None
    assert batches.blocking(PLACE, batch(15, epoch=1), None, NOW) is None
    assert batches.blocking(("orders", 4), batch(15), None, NOW) is None
    assert batches.blocking(PLACE, batch(15), None, NOW + KEPT_MS) is None
    batches.refused(PLACE, batch(20), TOO_FEW, NOW + KEPT_MS)
    assert batches.blocking(PLACE, batch(25), 20, NOW + KEPT_MS) is TOO_FEW
    batches.refused(PLACE, batch(0, epoch=1), NOT_LEADER, NOW + KEPT_MS)
    assert batches.blocking(PLACE, batch(5, epoch=1), None, NOW + KEPT_MS) is NOT_LEADER


def test_what_a_client_may_give_up_is_not_waited_for() -> None:
    batches = RefusedBatches()
    batches.refused(PLACE, batch(0), ErrorCode.message_too_large, NOW)
    assert not batches


@pytest.mark.parametrize(
    "code",
    [NOT_LEADER, TOO_FEW, ErrorCode.unknown_topic_or_partition, ErrorCode.kafka_storage_error],
)
def test_what_a_client_sends_again_is_waited_for_whatever_the_reason(code: ErrorCode) -> None:
    batches = RefusedBatches()
    batches.refused(PLACE, batch(0), code, NOW)
    assert batches.blocking(PLACE, batch(5), None, NOW) is code


def test_after_the_window_nothing_is_left_of_it() -> None:
    batches = refused(batch(0), batch(0, producer=8))
    batches.refused(PLACE, batch(0, producer=9), NOT_LEADER, NOW + 10)
    assert not batches.is_empty(NOW + KEPT_MS + 9)
    assert len(batches) == 1
    assert batches.is_empty(NOW + KEPT_MS + 10)
    assert not batches


def test_sequences_wrap_around() -> None:
    batches = refused(batch(SEQUENCE_MASK - 1), batch(3))
    assert batches.blocking(PLACE, batch(3), SEQUENCE_MASK - 1, NOW) is NOT_LEADER
    assert batches.blocking(PLACE, batch(SEQUENCE_MASK - 1), SEQUENCE_MASK - 1, NOW) is None


def test_no_more_than_some_are_kept() -> None:
    batches = refused(*(batch(0, producer=number) for number in range(KEPT_MAX + 5)))
    assert len(batches) == KEPT_MAX
    assert batches.blocking(PLACE, batch(1, producer=0), None, NOW) is None
    assert batches.blocking(PLACE, batch(1, producer=KEPT_MAX), None, NOW) is NOT_LEADER
