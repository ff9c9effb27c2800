"""Each rule of the balancer by example; what it never does, in any history, is in tests/sim."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from penstock.metadata.balancing import Balancer, BalancerLimits
from penstock.metadata.brokers import unfence_broker
from penstock.metadata.events import events_of
from penstock.metadata.load import BrokerLoad, PartitionLoad
from penstock.metadata.moves import Move, Place, Rule, records_of
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.reassignments import Reassignment, alter_reassignments, decommission
from tests.unit.metadata.builders import apply, at_least, cluster, fenced, partition_of, with_topic

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage

GRACE_MS, CALM_MS, BUSY_MS = 30_000, 10_000, 5_000
IDLE = BrokerLoad(0.05)
MINIMUM = at_least(2)


class Scene:
    """A balancer that looks once a second; brokers are idle unless told otherwise."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.load = dict.fromkeys(image.brokers, IDLE)
        self.balancer = Balancer(BalancerLimits())
        self.now_ms = 0

    def busy(self, broker_id: int, busy: float, shares: dict[int, float] | None = None) -> None:
        """`shares`: what the partitions of topic t take of it."""
        topic_id = UUID(int=1)
        partitions = {(topic_id, index): PartitionLoad(share=each) for index, each in (shares or {}).items()}
        self.load[broker_id] = BrokerLoad(busy, partitions=partitions)

    def moves_within(self, duration_ms: int) -> list[Move]:
        """The first moves, and when: `now_ms`."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms <= end_ms:
            moves = self.balancer.decide(self.image, self.load, self.now_ms)
            if moves:
                return moves
            self.now_ms += 1_000
        return []

    def make(self, move: Move) -> list[str]:
        records = records_of(self.image, move, MINIMUM)
        told = [event.text for event in events_of(self.image, records)]
        self.image, _ = apply(self.image, records)
        self.balancer.moved(move, self.now_ms)
        return told

    def join(self, *isr: int) -> None:
        topic = self.image.topics["t"]
        partition = topic.partitions[0]
        members = tuple((each, 0) for each in isr)
        change = IsrChange(topic.topic_id, 0, partition.leader_epoch, partition.partition_epoch, members)
        records, _ = alter_partitions(self.image, partition.leader, 0, [change], MINIMUM)
        assert records
        self.image, _ = apply(self.image, records)

    def bring_back(self, broker_id: int) -> None:
        self.image, _ = apply(self.image, unfence_broker(self.image, broker_id, MINIMUM))


def three_of(brokers: int, *, partitions: int = 1) -> MetadataImage:
    return with_topic(cluster(brokers), "t", replicas=(1, 2, 3), partitions=partitions)


def on_racks(image: MetadataImage, racks: str) -> MetadataImage:
    return replace(
        image,
        brokers={each.id: replace(each, rack=racks[each.id - 1]) for each in image.brokers.values()},
    )


def test_nothing_is_done_to_a_cluster_that_is_as_it_should_be() -> None:
    assert Scene(three_of(3)).moves_within(600_000) == []


# Replenish


def test_a_broker_is_borrowed_when_one_has_been_away_for_the_grace_time() -> None:
    scene = Scene(fenced(three_of(5), 3, minimum=2))
    scene.busy(4, 0.5)
    (move,) = scene.moves_within(GRACE_MS)
    assert (move.rule, move.borrow, scene.now_ms) == (Rule.REPLENISH, 5, GRACE_MS)
    assert move.reason == "2 of 3 replicas have been in service for 30 s"
    assert scene.make(move) == ["t-0 borrows [5], and is on replicas [1, 2, 3, 5]"]
    assert partition_of(scene.image).borrowed == (5,)
    assert scene.image.topics["t"].replication_factor == 3
    assert scene.moves_within(GRACE_MS * 3) == []


def test_one_that_is_back_in_time_is_not_replaced() -> None:
    scene = Scene(fenced(three_of(4), 3, minimum=2))
    assert scene.moves_within(GRACE_MS - 2_000) == []
    scene.bring_back(3)
    scene.join(1, 2, 3)
    assert scene.moves_within(GRACE_MS - 2_000) == []


def test_a_rack_that_has_no_live_replica_lends_first() -> None:
    scene = Scene(fenced(on_racks(three_of(5), "abcba"), 3, minimum=2))
    scene.image = on_racks(scene.image, "abcbc")
    scene.busy(5, 0.6)
    (move,) = scene.moves_within(GRACE_MS)
    assert move.borrow == 5


def test_what_was_borrowed_is_given_back_when_the_own_replicas_have_been_in_sync_for_a_while() -> None:
    scene = Scene(fenced(three_of(4), 3, minimum=2))
    (move,) = scene.moves_within(GRACE_MS)
    scene.make(move)
    scene.join(1, 2, 4)
    scene.bring_back(3)
    assert scene.moves_within(CALM_MS * 2) == []
    scene.join(1, 2, 3, 4)
    scene.now_ms += 1_000
    began_ms = scene.now_ms
    (move,) = scene.moves_within(CALM_MS)
    assert (move.rule, move.give_back, scene.now_ms - began_ms) == (Rule.CONSOLIDATE, 4, CALM_MS)
    assert scene.make(move)[-1] == "t-0 gives [4] back, and is on replicas [1, 2, 3]"
    partition = partition_of(scene.image)
    assert (partition.replicas, partition.isr, partition.borrowed) == ((1, 2, 3), (1, 2, 3), ())


def test_nobody_is_borrowed_for_a_partition_that_nobody_leads() -> None:
    image = with_topic(cluster(3), "t", replicas=(1,))
    assert Scene(fenced(image, 1)).moves_within(GRACE_MS * 3) == []


# Spread


def test_a_busy_broker_gives_leadership_to_an_in_sync_replica_that_has_room() -> None:
    scene = Scene(three_of(3, partitions=3))
    scene.busy(1, 0.85, {0: 0.1, 1: 0.4, 2: 0.3})
    scene.busy(2, 0.55)
    (move,) = scene.moves_within(BUSY_MS)
    assert (move.rule, move.place, move.leader) == (Rule.SPREAD, Place("t", 1), 3)
    assert scene.now_ms == BUSY_MS
    assert move.reason == "broker 1 is busy at 85%, and 40% of it are for this partition; 3 has room"
    assert scene.make(move) == ["t-1 is led by 3 (was 1), epoch 1"]


def test_what_it_brought_is_measured_before_the_next_partition_goes() -> None:
    scene = Scene(three_of(3, partitions=3))
    scene.busy(1, 1.0, {0: 0.3, 1: 0.3, 2: 0.3})
    (first,) = scene.moves_within(BUSY_MS)
    scene.make(first)
    scene.now_ms += 1_000
    began_ms = scene.now_ms
    (second,) = scene.moves_within(60_000)
    assert first.place != second.place
    assert scene.now_ms - began_ms == BalancerLimits().pause_ms - 1_000


def test_an_idle_broker_is_borrowed_when_no_replica_has_room_and_leads_when_it_is_in_sync() -> None:
    scene = Scene(three_of(4))
    for broker_id in (2, 3):
        scene.busy(broker_id, 0.6)
    scene.busy(1, 0.9, {0: 0.4})
    (move,) = scene.moves_within(BUSY_MS)
    assert (move.rule, move.borrow) == (Rule.SPREAD, 4)
    scene.make(move)
    assert scene.moves_within(120_000) == []  # it is on its way, and no other is borrowed meanwhile
    scene.join(1, 2, 3, 4)
    (move,) = scene.moves_within(120_000)
    assert (move.rule, move.leader) == (Rule.SPREAD, 4)


def test_leadership_returns_when_the_load_has_subsided() -> None:
    scene = Scene(three_of(3))
    scene.busy(1, 0.8, {0: 0.5})
    (move,) = scene.moves_within(BUSY_MS)
    scene.make(move)
    scene.busy(1, 0.3)
    scene.busy(move.leader or 0, 0.55, {0: 0.5})
    assert scene.moves_within(600_000) == []
    scene.busy(move.leader or 0, 0.1, {0: 0.05})
    began_ms = scene.now_ms
    (back,) = scene.moves_within(CALM_MS)
    assert (back.rule, back.leader, scene.now_ms - began_ms) == (Rule.CONSOLIDATE, 1, CALM_MS)


def test_a_broker_of_which_nothing_was_heard_gets_nothing() -> None:
    scene = Scene(three_of(3))
    scene.busy(1, 0.9, {0: 0.4})
    del scene.load[2], scene.load[3]
    assert scene.moves_within(120_000) == []


# Even


def test_leaders_return_after_a_fail_over() -> None:
    image = fenced(three_of(3, partitions=2), 1, minimum=2)
    scene = Scene(image)
    scene.bring_back(1)
    assert scene.moves_within(CALM_MS * 2) == []
    scene.join(1, 2, 3)
    scene.now_ms += 1_000
    (move,) = scene.moves_within(CALM_MS)
    assert (move.rule, move.place, move.leader) == (Rule.CONSOLIDATE, Place("t", 0), 1)


def test_a_new_broker_gets_replicas_and_leaders() -> None:
    image = cluster(4)
    for number, replicas in enumerate([(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2)], start=1):
        image = with_topic(image, f"t{number}", topic_id=number, replicas=replicas)
    scene = Scene(image)
    moves = scene.moves_within(GRACE_MS)
    assert scene.now_ms == GRACE_MS
    assert {move.rule for move in moves} == {Rule.EVEN}
    assert "broker 4 has 0" in moves[0].reason
    for move in moves:
        scene.make(move)
    targets = [topic.partitions[0].target for topic in scene.image.topics.values()]
    assert Counter(each for target in targets for each in target) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert Counter(target[0] for target in targets) == {1: 1, 2: 1, 3: 1, 4: 1}


def test_a_topic_that_was_put_on_one_leader_on_purpose_stays_there() -> None:
    assert Scene(three_of(4, partitions=4)).moves_within(GRACE_MS * 3) == []


def test_a_broker_whose_disk_fills_up_gives_replicas_away_and_gets_none() -> None:
    scene = Scene(three_of(5))
    scene.load[2] = BrokerLoad(0.05, disk_free=5, disk_size=100)
    scene.load[4] = BrokerLoad(0.05, disk_free=15, disk_size=100)
    (move,) = scene.moves_within(GRACE_MS)
    assert (move.rule, move.replicas) == (Rule.EVEN, (1, 5, 3))
    assert move.reason == "broker 2 has 5% of its disk left"


def test_no_replica_moves_into_a_rack_that_has_one() -> None:
    image = on_racks(with_topic(cluster(4), "t", replicas=(1, 2)), "abab")
    image = with_topic(image, "u", topic_id=2, replicas=(1, 2))
    image = with_topic(image, "v", topic_id=3, replicas=(1, 2))
    scene = Scene(image)
    moves = scene.moves_within(GRACE_MS)
    assert {(move.replicas or ())[0] for move in moves} <= {1, 3}
    assert {(move.replicas or ())[1] for move in moves} <= {2, 4}
    assert moves


# Carrying out


def test_a_move_is_void_when_the_partition_has_changed() -> None:
    scene = Scene(fenced(three_of(4), 3, minimum=2))
    (move,) = scene.moves_within(GRACE_MS)
    scene.image = fenced(scene.image, 2, minimum=1)
    assert scene.make(move) == []


@pytest.mark.parametrize(
    "move",
    [
        Move(Rule.SPREAD, Place("t", 0), 0, "", leader=4),
        Move(Rule.SPREAD, Place("t", 0), 0, "", leader=9),
        Move(Rule.SPREAD, Place("t", 0), 0, "", borrow=2),
        Move(Rule.SPREAD, Place("t", 0), 0, "", borrow=9),
        Move(Rule.CONSOLIDATE, Place("t", 0), 0, "", give_back=1),
        Move(Rule.SPREAD, Place("x", 0), 0, "", leader=2),
        Move(Rule.SPREAD, Place("t", 1), 0, "", leader=2),
    ],
)
def test_what_cannot_be_carried_out_is_not(move: Move) -> None:
    assert records_of(three_of(4), move, MINIMUM) == []


def test_a_borrowed_replica_is_not_given_back_when_too_few_would_be_left() -> None:
    image = with_topic(cluster(3), "t", replicas=(1, 2))
    scene = Scene(image)
    scene.make(Move(Rule.REPLENISH, Place("t", 0), 0, "", borrow=3))
    scene.join(1, 3)
    epoch = partition_of(scene.image).partition_epoch
    assert scene.make(Move(Rule.CONSOLIDATE, Place("t", 0), epoch, "", give_back=3)) == []


# By hand


def test_replicas_that_an_administrator_names_are_not_borrowed_any_more() -> None:
    scene = Scene(fenced(three_of(4), 3, minimum=2))
    (move,) = scene.moves_within(GRACE_MS)
    scene.make(move)
    scene.join(1, 2, 4)
    records, _ = alter_reassignments(scene.image, [Reassignment("t", 0, (1, 2, 4))], MINIMUM)
    scene.image, _ = apply(scene.image, records)
    partition = partition_of(scene.image)
    assert (partition.replicas, partition.borrowed) == ((1, 2, 4), ())


def test_a_borrowed_broker_that_is_decommissioned_is_replaced_by_another_borrowed_one() -> None:
    scene = Scene(fenced(three_of(5), 3, minimum=2))
    scene.busy(5, 0.5)
    (move,) = scene.moves_within(GRACE_MS)
    assert move.borrow == 4
    scene.make(move)
    records, _ = decommission(scene.image, 4, MINIMUM)
    scene.image, _ = apply(scene.image, records)
    partition = partition_of(scene.image)
    assert (partition.target, partition.borrowed) == ((1, 2, 3, 5), (5,))
