"""Names of topics, and where their replicas go."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.traffic.topics import (
    CONTRIBUTIONS,
    HEATMAP,
    MAP,
    QUADRANT_PARTITIONS,
    QUADRANT_PATTERN,
    SHARED_PLANS,
    name_number,
    parse_quadrant_topic,
    quadrant_plan,
    quadrant_topic,
    replica_assignment,
)


@given(st.integers(0, 999_999_999), st.integers(0, 999_999_999))
def test_name_and_back(row: int, col: int) -> None:
    name = quadrant_topic(row, col)
    assert parse_quadrant_topic(name) == (row, col)
    assert re.fullmatch(QUADRANT_PATTERN, name)


@pytest.mark.parametrize(
    "name",
    [
        HEATMAP,
        MAP,
        CONTRIBUTIONS,
        "",
        "traffic.r0",
        "traffic.r-1.c0",
        "traffic.r00.c0",
        "traffic.r0.c0x",
        "traffic.r0.c0\n",
        "traffic.r٣.c0",
        "traffic.r9999999999.c0",
    ],
)
def test_names_that_are_not_those_of_quadrants(name: str) -> None:
    assert parse_quadrant_topic(name) is None


def test_own_topics_are_not_input_of_the_heat_map() -> None:
    for name in SHARED_PLANS:
        assert not re.fullmatch(QUADRANT_PATTERN, name)


@given(st.sets(st.integers(0, 1_000), min_size=1, max_size=20), st.integers(0, 2**32))
def test_one_broker_leads_a_topic_and_others_follow(brokers: set[int], first: int) -> None:
    plan = quadrant_plan("traffic.r0.c0")
    found = replica_assignment(plan, list(brokers), first)
    assert len(found) == QUADRANT_PARTITIONS
    assert all(replicas == found[0] for replicas in found)
    assert len(set(found[0])) == len(found[0]) == min(3, len(brokers))
    assert set(found[0]) <= brokers


@given(st.sets(st.integers(0, 1_000), min_size=1, max_size=20))
def test_quadrants_are_spread(brokers: set[int]) -> None:
    plan = quadrant_plan("x")
    leaders = [replica_assignment(plan, list(brokers), number)[0][0] for number in range(len(brokers))]
    assert set(leaders) == brokers


def test_a_name_has_the_same_number_everywhere() -> None:
    assert name_number("traffic.map") == 3_209_853_079
