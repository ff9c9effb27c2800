"""Names of topics."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.traffic.topics import (
    CONTRIBUTIONS,
    HEATMAP,
    MAP,
    QUADRANT_PATTERN,
    SHARED_PLANS,
    parse_quadrant_topic,
    quadrant_topic,
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
