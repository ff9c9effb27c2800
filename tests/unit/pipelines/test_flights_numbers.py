from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.flights.geography import Airports
from penstock.pipelines.flights.numbers import maybe_number, numbers

WRITTEN = st.one_of(
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.text("0123456789.eE+- xXnaifNIFd_,", max_size=8),
    st.sampled_from(["", " ", "-0", "+0", "inf", "nan", "Infinity", "1e999", "0x10", "1d", ".5", "5.", "٣"]),
)


@given(st.lists(st.one_of(st.none(), WRITTEN), max_size=6))
def test_a_column_is_read_as_its_values_are_one_by_one(texts: list[str | None]) -> None:
    found = numbers(pa.array(texts, pa.string())).to_pylist()
    assert found == [maybe_number(text) for text in texts]


@given(WRITTEN)
def test_a_column_of_one_value_takes_the_same_decision_on_the_quick_way(text: str) -> None:
    assert numbers(pa.array([text], pa.string())).to_pylist() == [maybe_number(text)]


@pytest.mark.parametrize("text", ["-1", "-0", "NaN", "inf", "1e999", "0x10", "1d", "", "1 2", "1,5", "٣"])
def test_what_is_no_number(text: str) -> None:
    assert maybe_number(text) is None


def test_paths_are_sums_of_great_circles_and_unknown_airports_have_none() -> None:
    rows = [
        ("AAA", "0", "0"),
        ("BBB", "0", "90"),
        ("CCC", "0", "180"),
        ("AAA", "9", "9"),
        ("DDD", "\\N", "1"),
    ]
    airports = Airports.from_json(Airports.of_rows(rows).to_json())
    quarter = math.pi / 2 * 6371 / 1.609344
    assert airports.maybe_miles("AAA", "BBB") == pytest.approx(quarter, rel=1e-12)
    assert airports.maybe_miles_along("AAA", "BBB||CCC") == pytest.approx(2 * quarter, rel=1e-12)
    assert airports.maybe_miles("AAA", "DDD") is None
    assert airports.maybe_miles_along("AAA", "XXX||BBB") is None
    assert airports.maybe_miles("AAA", "BBB||CCC") is None
