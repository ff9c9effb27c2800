"""What is on `traffic.heatmap`, written and read."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import InvalidMessageError
from penstock.traffic.heat import HeatCell, Totals, parse_heat

counts = st.integers(0, 2**40)
CELL = HeatCell(3, 7, 5_000, 10_000, 12, 31.5)


@st.composite
def heat_cells(draw: st.DrawFn) -> HeatCell:
    start, length, count = draw(counts), draw(st.integers(1, 10**6)), draw(counts)
    speed = draw(st.floats(0, 1000)) if count else None
    return HeatCell(draw(counts), draw(counts), start, start + length, count, speed)


@st.composite
def all_totals(draw: st.DrawFn) -> Totals:
    parts = [draw(counts) for _ in range(4)]
    reasons = draw(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), counts))
    maybe = st.none() | counts
    return Totals(sum(parts), *parts, reasons, draw(maybe), draw(maybe))


@given(heat_cells())
def test_a_cell_and_back(cell: HeatCell) -> None:
    assert parse_heat(cell.key, cell.to_json()) == cell
    assert cell.key == f"{cell.row}.{cell.col}.{cell.start_ms}".encode()


@given(all_totals())
def test_totals_and_back(totals: Totals) -> None:
    assert parse_heat(totals.key, totals.to_json()) == totals
    assert set(orjson.loads(totals.to_json())) == {
        *("sent", "counted", "late", "duplicate", "malformed", "reasons", "newest", "watermark")
    }


def test_a_cell_that_empties() -> None:
    empty = HeatCell(3, 7, 5_000, 10_000, 0, None)
    assert b'"count":0,"speed":null' in empty.to_json()
    assert HeatCell.from_json(empty.to_json()) == empty


def test_a_tombstone() -> None:
    assert parse_heat(b"3.7.5000", None) is None


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("row", -1),
        ("col", 1.5),
        ("start", True),
        ("end", 5_000),
        ("count", None),
        ("count", 0),
        ("speed", "31"),
        ("speed", -1),
        ("speed", True),
        ("speed", None),
    ],
)
def test_cells_that_are_none(name: str, wrong: object) -> None:
    with pytest.raises(InvalidMessageError, match=name):
        HeatCell.from_json(orjson.dumps({**CELL.as_dict(), name: wrong}))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("sent", 1), ("late", -1), ("reasons", None), ("reasons", {"json": "many"}), ("newest", 1.5)],
)
def test_totals_that_are_none(name: str, wrong: object) -> None:
    with pytest.raises(InvalidMessageError):
        Totals.from_json(orjson.dumps({**Totals().as_dict(), name: wrong}))


@pytest.mark.parametrize("key", [None, b"", b"3.7.5001", b"totals"])
def test_a_key_of_something_else(key: bytes | None) -> None:
    with pytest.raises(InvalidMessageError):
        parse_heat(key, CELL.to_json())


@given(st.none() | st.binary(max_size=10) | st.just(b"totals"), st.binary(max_size=40))
def test_any_bytes_are_heat_or_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        parse_heat(key, value)
