"""Where the replicas of an application's topics go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.topic_plan import TopicPlan
from penstock.flights.topics import PLANS
from penstock.traffic.grid import DEFAULT_GRID
from penstock.traffic.topics import QUADRANT_PARTITIONS, SHARED_PLANS

BROKERS = st.sets(st.integers(0, 1_000), min_size=1, max_size=20)


@given(BROKERS, st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_replicas_are_different_brokers(
    brokers: set[int], replication_factor: int, number: int, one_leader: bool
) -> None:
    plan = TopicPlan("t", 6, one_leader=one_leader, number=number)
    found = plan.assignment(list(brokers), replication_factor)
    assert len(found) == 6
    for replicas in found:
        assert len(set(replicas)) == len(replicas) == min(replication_factor, len(brokers))
        assert set(replicas) <= brokers
    leaders = {replicas[0] for replicas in found}
    assert len(leaders) == (1 if one_leader else min(6, len(brokers)))


@given(BROKERS)
def test_one_broker_leads_a_quadrant_and_another_the_next(brokers: set[int]) -> None:
    topics = DEFAULT_GRID.topics()
    found = [DEFAULT_GRID.plan_of_topic(topic).assignment(list(brokers), 3) for topic in topics]
    assert all(replicas == each[0] for each in found for replicas in each)
    assert all(len(each) == QUADRANT_PARTITIONS for each in found)
    assert len({each[0][0] for each in found}) == min(len(topics), len(brokers))


def test_what_has_no_number_goes_by_its_name_in_every_process() -> None:
    brokers = list(range(100))
    assert SHARED_PLANS["traffic.map"].assignment(brokers, 3) == [[79, 80, 81]]
    leaders = [replicas[0] for replicas in PLANS["flights.itineraries"].assignment(brokers, 3)]
    assert leaders == [leaders[0] + step for step in range(len(leaders))]


def test_a_topic_of_another_map_has_a_plan_too() -> None:
    assert DEFAULT_GRID.plan_of_topic("traffic.r999.c0").number is None
    assert DEFAULT_GRID.plan_of_topic("traffic.map") is SHARED_PLANS["traffic.map"]
