from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.placement import place
from tests.unit.metadata.builders import cluster


@given(st.integers(1, 12), st.integers(1, 60), st.integers(0, 1000), st.data())
def test_replicas_are_distinct_and_leaders_balanced(
    brokers: int, partitions: int, start: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, brokers))
    placed = place(
        cluster(brokers).live_brokers(),
        partitions=partitions,
        replication_factor=replication_factor,
        start=start,
    )
    assert len(placed) == partitions
    assert all(len(set(replicas)) == replication_factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.get(each, 0) for each in range(1, brokers + 1)) <= 1


def test_the_followers_of_one_leader_differ() -> None:
    placed = place(cluster(4).live_brokers(), partitions=12, replication_factor=2, start=0)
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3, 4}
