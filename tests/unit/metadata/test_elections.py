from __future__ import annotations

import pytest

from penstock.metadata.brokers import stop_broker, unfence_broker
from penstock.metadata.elections import ElectionType, elect_leaders
from penstock.metadata.recovery import ReplicaEnd
from penstock.replication.divergence import LogEnd
from penstock.types import ApiError, ErrorCode, TopicPartition
from tests.unit.metadata.builders import apply, at_least, causes, cluster, fenced, partition_of, with_topic

T0 = TopicPartition("t", 0)


def code_of(outcome_error: ApiError | None) -> ErrorCode | None:
    return None if outcome_error is None else outcome_error.code


def test_the_preferred_leader_takes_over_under_a_new_epoch() -> None:
    image = fenced(with_topic(cluster(2), "t", replicas=(1, 2)), 1, minimum=2)
    image, _ = apply(image, unfence_broker(image, 1, at_least(2)))
    assert (partition_of(image).leader, partition_of(image).isr) == (2, (1, 2))
    records, (outcome,) = elect_leaders(image, [T0], ElectionType.PREFERRED)
    assert (outcome.topic, outcome.partition, outcome.error) == ("t", 0, None)
    assert causes(records) == ["1 is the preferred leader"]
    after, _ = apply(image, records)
    assert partition_of(after)[:5] == (1, 2, (1, 2), (1, 2), 2)


def test_what_needs_no_election_is_said_only_where_it_was_asked_for() -> None:
    image = with_topic(cluster(2), "t", partitions=2, replicas=(1, 2))
    records, outcomes = elect_leaders(image, [T0, T0, TopicPartition("x", 0)], ElectionType.PREFERRED)
    assert [code_of(each.error) for each in outcomes] == [
        ErrorCode.election_not_needed,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert (records, elect_leaders(image, None, ElectionType.PREFERRED)) == ([], ([], []))


def test_a_preferred_leader_that_is_gone_stopping_or_behind_is_not_elected() -> None:
    image = with_topic(cluster(3), "fenced", topic_id=1, replicas=(1, 2))
    image = with_topic(image, "stopping", topic_id=2, replicas=(3, 2))
    image = with_topic(image, "behind", topic_id=3, replicas=(3, 2), isr=(2,))
    image = fenced(image, 1, minimum=2)
    image, _ = apply(image, stop_broker(image, 3, at_least(2)))
    records, outcomes = elect_leaders(image, None, ElectionType.PREFERRED)
    assert records == []
    assert {each.topic: code_of(each.error) for each in outcomes} == dict.fromkeys(
        ("fenced", "stopping", "behind"), ErrorCode.preferred_leader_not_available
    )


def test_an_unclean_election_is_held_where_nobody_leads_and_somebody_tells_what_it_has() -> None:
    image = with_topic(cluster(3), "t", replicas=(1, 2, 3), isr=(1,))
    _, (outcome,) = elect_leaders(image, [T0], ElectionType.UNCLEAN)
    assert code_of(outcome.error) is ErrorCode.election_not_needed
    image = fenced(image, 1)
    records, (outcome,) = elect_leaders(image, None, ElectionType.UNCLEAN)
    assert (records, code_of(outcome.error)) == ([], ErrorCode.eligible_leaders_not_available)
    epoch = partition_of(image).leader_epoch
    ends = {
        1: ReplicaEnd(0, epoch, LogEnd(0, 9)),  # fenced
        2: ReplicaEnd(0, epoch, LogEnd(0, 3)),
        3: ReplicaEnd(0, epoch, LogEnd(0, 4)),
    }
    records, (outcome,) = elect_leaders(image, None, ElectionType.UNCLEAN, {T0: ends})
    assert outcome.error is None
    (cause,) = causes(records)
    assert cause == (
        "not a clean election: it was asked for; 2 ends at 3 in epoch 0, 3 ends at 4 in epoch 0."
        " What was acknowledged from offset 4 on may be lost"
    )
    after, _ = apply(image, records)
    assert (partition_of(after).leader, partition_of(after).isr) == (3, (3,))
    with pytest.raises(ApiError, match="Unknown type of election"):
        elect_leaders(image, None, 2)


def test_what_was_told_in_another_epoch_or_by_another_process_does_not_count() -> None:
    image = fenced(with_topic(cluster(2), "t", replicas=(1, 2), isr=(1,)), 1)
    epoch = partition_of(image).leader_epoch
    for told in (ReplicaEnd(0, epoch - 1, LogEnd(0, 3)), ReplicaEnd(1, epoch, LogEnd(0, 3))):
        _, (outcome,) = elect_leaders(image, [T0], ElectionType.UNCLEAN, {T0: {2: told}})
        assert code_of(outcome.error) is ErrorCode.eligible_leaders_not_available
