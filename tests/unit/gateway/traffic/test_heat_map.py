"""Windows out of records: whole batches, absolute figures, bounds, and readers that fall behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.traffic.heat_map import WINDOWS_MAX, HeatMap, Place, Span, plain_figure
from penstock.traffic.heat import HeatCell, Totals
from tests.unit.gateway.traffic.records import WINDOW_MS, Pair, cell, totals

NOW_MS = 10**12

Shown = dict[Span, dict[Place, tuple[int, float | None]]]


def apply(heat_map: HeatMap, *pairs: Pair) -> HeatMap:
    for key, value in pairs:
        heat_map.apply(key, value, NOW_MS)
    return heat_map


def filled(*pairs: Pair) -> HeatMap:
    return apply(HeatMap(10_000), *pairs)


def span(window: int) -> Span:
    return window * WINDOW_MS, (window + 1) * WINDOW_MS


def all_of(heat_map: HeatMap) -> Shown:
    return {
        each: {place: (heat.counted, heat.speed) for place, heat in heat_map.window(each).cells}
        for each in heat_map.spans
    }


def changes(heat_map: HeatMap, since: int) -> dict[Span | None, dict[Place, int]]:
    return {
        change.span: {place: heat.counted for place, heat in change.cells}
        for change in heat_map.changes(since)
    }


def test_a_batch_is_seen_when_its_totals_are_there() -> None:
    heat_map = filled(cell(1, 2, 7, 3), cell(1, 3, 7, 4))
    assert (heat_map.number, heat_map.spans) == (0, [])
    apply(heat_map, totals(7, newest=35_500))
    assert all_of(heat_map) == {span(7): {(1, 2): (3, 30.0), (1, 3): (4, 30.0)}}
    assert heat_map.totals == Totals(sent=7, counted=7, newest=35_500)
    apply(heat_map, cell(1, 2, 8, 1), cell(1, 2, 7, 5))
    assert all_of(heat_map)[span(7)][1, 2] == (3, 30.0)
    apply(heat_map, totals(10))
    assert heat_map.spans == [span(8), span(7)]
    assert all_of(heat_map)[span(7)][1, 2] == (5, 30.0)


def test_a_batch_that_is_written_again_changes_nothing() -> None:
    batch = [cell(1, 2, 7, 3), cell(0, 0, 7, 0), totals(3)]
    heat_map = filled(*batch)
    number, before = heat_map.number, all_of(heat_map)
    apply(heat_map, *batch, *batch[:1], *batch)  # also one that was broken off
    assert (heat_map.number, all_of(heat_map)) == (number, before)
    assert list(heat_map.changes(number)) == []


def test_what_has_changed_since() -> None:
    heat_map = filled(cell(0, 0, 1, 1), cell(0, 1, 1, 1), totals(2))
    apply(heat_map, cell(0, 0, 1, 2), cell(5, 5, 2, 1), totals(4))
    apply(heat_map, cell(0, 0, 1, 3), totals(5))
    assert changes(heat_map, 2) == {span(1): {(0, 0): 3}}
    assert changes(heat_map, 1) == {span(1): {(0, 0): 3}, span(2): {(5, 5): 1}}
    assert changes(heat_map, 0) == {span(1): {(0, 0): 3, (0, 1): 1}, span(2): {(5, 5): 1}}
    assert [change.span for change in heat_map.changes(0)] == [span(1), span(2)]


def test_totals_alone() -> None:
    heat_map = filled(totals(1))
    assert changes(heat_map, 0) == {None: {}}
    apply(heat_map, cell(0, 0, 1, 1), totals(2))
    number = heat_map.number
    apply(heat_map, totals(3))
    assert changes(heat_map, number) == {span(1): {}}
    apply(heat_map, totals(3))
    assert changes(heat_map, number + 1) == {}


def test_a_cell_that_empties() -> None:
    heat_map = filled(cell(0, 0, 1, 3), totals(3), cell(0, 0, 2, 0), totals(4))
    assert all_of(heat_map)[span(2)] == {(0, 0): (0, None)}


def test_only_the_last_windows_are_kept() -> None:
    heat_map = HeatMap(10_000)
    for window in range(100, 200):
        apply(heat_map, cell(0, 0, window, 1), cell(0, 1, window, 1), totals(window))
    assert heat_map.spans == [span(199 - back) for back in range(WINDOWS_MAX)]
    apply(heat_map, cell(0, 0, 3, 1), totals(201))
    assert heat_map.spans[-1] == span(200 - WINDOWS_MAX)


def test_only_so_many_cells_are_kept() -> None:
    heat_map = HeatMap(10)
    for window in (1, 2, 3):
        apply(heat_map, *(cell(window, col, window, 1) for col in range(4)), totals(window))
    assert heat_map.spans == [span(3), span(2)]
    apply(heat_map, *(cell(row, 0, 4, 1) for row in range(1_000)))  # nobody ends this batch
    assert heat_map.spans == [span(4)]
    assert len(all_of(heat_map)[span(4)]) == 10
    apply(heat_map, totals(9))
    assert heat_map.totals == Totals(sent=9, counted=9)
    # What is known is kept up to date also when there is no room for more.
    apply(heat_map, cell(0, 0, 4, 7), totals(10))
    assert all_of(heat_map)[span(4)][0, 0] == (7, 30.0)


def test_garbage_changes_nothing() -> None:
    heat_map = filled(cell(0, 0, 1, 1), totals(1))
    number, before = heat_map.number, all_of(heat_map)
    good_key, good = cell(0, 0, 1, 9)
    garbage: list[tuple[bytes | None, bytes | None]] = [
        (None, None),
        (None, b""),
        (b"", b"{}"),
        (good_key, b"\xff\x00"),
        (good_key, b"[1, 2]"),
        (good_key, b"null"),
        (b"0.1.5000", good),
        (good_key, good.replace(b'"count":9', b'"count":-9')),
        (good_key, good.replace(b'"count":9', b'"count":true')),
        (good_key, good.replace(b'"count":9', b'"count":9.5')),
        (good_key, good.replace(b'"speed":30.0', b'"speed":-1.0')),
        (good_key, good.replace(b'"speed":30.0', b'"speed":"30"')),
        (good_key, good.replace(b'"speed":30.0', b'"speed":NaN')),
        (good_key, good.replace(b'"end":10000', b'"end":5000')),
        (b"totals", b"{}"),
        (b"totals", b'{"sent":"x"}'),
        (b"totals", Totals(sent=1, counted=0).to_json()),
    ]
    for key, value in garbage:
        heat_map.apply(key, value, NOW_MS)
    apply(heat_map, totals(1))
    assert (heat_map.number, all_of(heat_map)) == (number, before)
    assert heat_map.refused == len(garbage) - 1  # a record without a value only says that its key is gone


def test_a_window_that_can_not_be_yet_is_not_the_newest() -> None:
    heat_map = filled(cell(0, 0, 1, 1), totals(1))
    ahead = cell(0, 0, NOW_MS // WINDOW_MS + 60_000 // WINDOW_MS + 1, 1)
    apply(heat_map, ahead, totals(2))
    assert heat_map.spans == [span(1)]
    apply(heat_map, cell(0, 0, NOW_MS // WINDOW_MS + 60_000 // WINDOW_MS, 1), totals(3))
    assert len(heat_map.spans) == 2


def test_a_map_that_is_cleared_tells_so() -> None:
    heat_map = filled(cell(0, 0, 1, 1), totals(1), cell(0, 1, 1, 1))
    number = heat_map.number
    heat_map.clear()
    assert (heat_map.spans, heat_map.totals) == ([], None)
    assert heat_map.number > number
    apply(heat_map, totals(1))
    assert heat_map.spans == []


def test_all_is_told_again() -> None:
    heat_map = filled(cell(0, 0, 1, 1), cell(0, 1, 2, 1), totals(2))
    number = heat_map.number
    heat_map.touch()
    assert changes(heat_map, number) == {span(1): {(0, 0): 1}, span(2): {(0, 1): 1}}


@given(
    st.lists(
        st.one_of(
            st.builds(cell, st.integers(0, 2), st.integers(0, 2), st.integers(0, 8), st.integers(0, 3)),
            st.builds(totals, st.integers(0, 9)),
        ),
        max_size=60,
    ),
    st.lists(st.integers(0, 59), max_size=6),
)
def test_a_reader_that_looks_now_and_then_knows_what_the_map_knows(
    pairs: list[Pair], looks: list[int]
) -> None:
    heat_map, known = HeatMap(10_000), {}
    seen = 0
    for index, pair in enumerate([*pairs, totals(100)]):
        apply(heat_map, pair)
        if index in looks or index == len(pairs):
            for change in heat_map.changes(seen):
                for place, heat in change.cells:
                    known[change.span, place] = (heat.counted, heat.speed)
            seen = heat_map.number
    for each, cells in all_of(heat_map).items():
        assert {place: known[each, place] for place in cells} == cells


@given(
    st.builds(
        lambda row, col, start, length, count, speed: HeatCell(
            row, col, start, start + length, count, speed if count else None
        ),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.integers(0, 10**13),
        st.integers(1, 10**6),
        st.integers(0, 10**9),
        st.floats(0, 1000),
    )
)
def test_the_quick_look_sees_what_the_close_one_does(found: HeatCell) -> None:
    figure = plain_figure(found.key, found.to_json())
    assert (figure is None) == (found.count == 0)
    if figure is not None:
        assert figure == (
            (found.start_ms, found.end_ms), (found.row, found.col), found.count, found.speed,
        )  # fmt: skip
