from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.placement import in_turn, place
from tests.unit.metadata.builders import cluster

RACKS = st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=8)


@given(st.integers(1, 12), RACKS, st.integers(1, 60), st.integers(0, 1000), st.data())
def test_replicas_are_distinct_and_leaders_balanced(
    brokers: int, racks: list[str | None], partitions: int, start: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, brokers))
    placed = place(
        cluster(brokers, racks).live_brokers(),
        partitions=partitions,
        replication_factor=replication_factor,
        start=start,
    )
    assert len(placed) == partitions
    assert all(len(set(replicas)) == replication_factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.get(each, 0) for each in range(1, brokers + 1)) <= 1


@given(st.integers(1, 12), RACKS, st.integers(0, 1000), st.data())
def test_no_two_replicas_are_in_one_rack_while_there_are_enough(
    brokers: int, racks: list[str | None], start: int, data: st.DataObject
) -> None:
    image = cluster(brokers, racks)
    replication_factor = data.draw(st.integers(1, brokers))
    there = {broker.rack for broker in image.live_brokers()}
    for replicas in place(
        image.live_brokers(), partitions=30, replication_factor=replication_factor, start=start
    ):
        used = {image.brokers[each].rack for each in replicas}
        assert len(used) == min(replication_factor, len(there))


@given(st.integers(1, 12), st.sampled_from(["a", None]), st.integers(0, 1000), st.data())
def test_with_one_rack_or_none_followers_come_after_their_leader(
    brokers: int, rack: str | None, start: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, brokers))
    placed = place(
        cluster(brokers, [rack]).live_brokers(),
        partitions=40,
        replication_factor=replication_factor,
        start=start,
    )
    for position, replicas in enumerate(placed, start):
        leader = position % brokers
        others = max(1, brokers - 1)
        gap = (position // brokers) % others
        followers = [(leader + 1 + (gap + step) % others) % brokers for step in range(replication_factor - 1)]
        assert replicas == (leader + 1, *(each + 1 for each in followers))


@given(st.integers(1, 4), st.integers(2, 4), st.integers(0, 1000), st.data())
def test_racks_of_one_size_give_every_broker_the_same(
    size: int, racks: int, start: int, data: st.DataObject
) -> None:
    brokers = size * racks
    replication_factor = data.draw(st.integers(1, brokers))
    placed = place(
        cluster(brokers, [f"rack {number}" for number in range(racks)]).live_brokers(),
        partitions=brokers * (brokers - 1),
        replication_factor=replication_factor,
        start=start,
    )
    held = Counter(broker for replicas in placed for broker in replicas)
    assert set(held.values()) == {(brokers - 1) * replication_factor}


def test_the_followers_of_one_leader_differ() -> None:
    placed = place(cluster(4).live_brokers(), partitions=12, replication_factor=2, start=0)
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3, 4}


def test_leaders_in_a_row_are_in_different_racks() -> None:
    brokers = in_turn(cluster(6, ["a", "a", "b", "b", "b", "c"]).live_brokers())
    assert [(broker.id, broker.rack) for broker in brokers] == [
        (1, "a"), (3, "b"), (6, "c"), (2, "a"), (4, "b"), (5, "b"),
    ]  # fmt: skip
