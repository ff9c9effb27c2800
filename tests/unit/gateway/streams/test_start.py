"""Where readers begin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.errors import ApiFailure
from penstock.gateway.streams.start import (
    choose,
    event_id,
    parse_event_id,
    parse_partition,
    parse_start,
)
from penstock.kafka.records import Offsets

positions = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**62), min_size=1, max_size=5)


@given(positions)
def test_an_event_id_says_where_to_go_on(told: dict[int, int]) -> None:
    assert parse_event_id(event_id(told)) == told


@pytest.mark.parametrize(
    "text", ["", "x", "0", "0:", ":1", "0:x", "0:-2", "0:1,", "0:1:2", "-1:0", "0:" + "9" * 30]
)
def test_any_other_event_id_is_refused(text: str) -> None:
    with pytest.raises(ApiFailure) as caught:
        parse_event_id(text)
    assert caught.value.status == 400


def test_starts() -> None:
    assert parse_start(None, "end") == "end"
    assert parse_start("", "beginning") == "beginning"
    assert parse_start("beginning", "end") == "beginning"
    assert parse_start("17", "end") == 17
    assert parse_partition(None) is None
    assert parse_partition("3") == 3
    for wrong in ("-1", "1.0", "x", "End", "9" * 19, "1" * 40, "٣"):
        with pytest.raises(ApiFailure) as caught:
            parse_start(wrong, "end")
        assert caught.value.status == 400
    with pytest.raises(ApiFailure):
        parse_partition(str(2**31))


def test_offsets_are_checked_against_the_log() -> None:
    offsets = Offsets(5, 9)
    assert choose("t", 0, "beginning", offsets) == 5
    assert choose("t", 0, "end", offsets) == 9
    assert [choose("t", 0, each, offsets) for each in (5, 9)] == [5, 9]
    for wrong in (4, 10):
        with pytest.raises(ApiFailure, match="begins at 5 and ends before 9") as caught:
            choose("t", 0, wrong, offsets)
        assert (caught.value.status, caught.value.fields) == (400, {"start": 5, "end": 9})
