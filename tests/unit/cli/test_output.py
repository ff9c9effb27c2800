from __future__ import annotations

from penstock.cli.output import columns, counted


def test_text_is_aligned_left_and_numbers_right() -> None:
    assert columns(["TOPIC", "END"], [["a", 5], ["orders", 1_000]]) == [
        "TOPIC    END",
        "a          5",
        "orders  1000",
    ]


def test_what_is_missing_is_shown_as_a_dash() -> None:
    assert columns(["A", "B"], [[None, "x"]]) == ["A  B", "-  x"]


def test_a_table_without_rows_is_its_header() -> None:
    assert columns(["A", "BB"], []) == ["A  BB"]


def test_counting() -> None:
    assert [counted(number, "message") for number in (0, 1, 2_000)] == [
        "0 messages",
        "1 message",
        "2,000 messages",
    ]
