"""Rows as CSV and as JSON, and how they end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.flights.records import ResultEnd, result_end_headers, rows_headers
from penstock.gateway.flights.results import ResultReading, header_line, to_ndjson, to_number

JOB = "11111111-1111-1111-1111-111111111111"
KEY = JOB.encode()


def test_numbers_are_numbers() -> None:
    lines = b'a"1,SFO,LAX,110.6,BOI||SJC\na2,SFO,DTW,475,\n'
    assert [json.loads(line) for line in b"".join(to_ndjson("q1", lines)).splitlines()] == [
        {"legId": 'a"1', "startingAirport": "SFO", "destinationAirport": "LAX", "totalFare": 110.6,
         "stopovers": "BOI||SJC"},
        {"legId": "a2", "startingAirport": "SFO", "destinationAirport": "DTW", "totalFare": 475,
         "stopovers": ""},
    ]  # fmt: skip
    assert b"".join(to_ndjson("q4", b"A,B,350.95223076923065,788.61\n")) == (
        b'{"startingAirport":"A","destinationAirport":"B","avgFare":350.95223076923065,"maxFare":788.61}\n'
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [("", None), ("7", 7), ("7.5", 7.5), ("-3", -3), ("x", "x"), ("²", "²"), ("9" * 30, 1e30)],
)
def test_what_is_a_number(text: str, number: object) -> None:
    assert to_number(text) == number


def test_many_lines_come_in_several_pieces() -> None:
    lines = [b"%d,A,B,%d" % (number, number) for number in range(20_000)]
    pieces = list(to_ndjson("q2", b"".join(line + b"\n" for line in lines)))
    assert len(pieces) > 2
    assert all(piece.endswith(b"}\n") for piece in pieces)
    found = [json.loads(line)["totalTravelDistance"] for line in b"".join(pieces).splitlines()]
    assert found == list(range(20_000))
    assert list(to_ndjson("q2", b"")) == []


FIELD = st.text(st.characters(exclude_characters=",\n", codec="utf-8"), max_size=6) | st.sampled_from(
    ["1", "-2.50", "1e5", "007", ".5", "NaN", 'say "no"', "back\\slash", "BOI||SJC"]
)


@given(st.lists(st.tuples(FIELD, FIELD, FIELD, FIELD, FIELD), min_size=1, max_size=5))
def test_any_fields_are_valid_json(rows: list[tuple[str, ...]]) -> None:
    lines = "".join(",".join(row) + "\n" for row in rows).encode()
    found = [json.loads(line) for line in b"".join(to_ndjson("q1", lines)).split(b"\n")[:-1]]
    texts = [(each["legId"], each["startingAirport"], each["stopovers"]) for each in found]
    assert texts == [(row[0], row[1], row[4]) for row in rows]


def test_lines_that_are_too_short_or_no_text_are_passed_on() -> None:
    assert b"".join(to_ndjson("q1", b"a\n")) == b'{"legId":"a"}\n'
    assert "\ufffd" in b"".join(to_ndjson("q2", b"\xff,A,B,1\n")).decode()


def test_the_header_line() -> None:
    assert header_line("q4") == b"startingAirport,destinationAirport,avgFare,maxFare\n"


def test_rows_of_one_query_of_one_job() -> None:
    reading = ResultReading(JOB, "q1")
    assert reading.take(b"another", rows_headers("q1", 1), b"x\n") is None
    assert reading.take(KEY, rows_headers("q2", 1), b"x\n") is None
    assert reading.take(KEY, [("query", b"q1")], b"x\n") is None
    assert reading.take(KEY, rows_headers("q1", 2), b"x\ny\n") == b"x\ny\n"
    assert reading.take(KEY, result_end_headers(ResultEnd("q2", 1)), None) is None
    assert not reading.ended
    assert reading.take(KEY, result_end_headers(ResultEnd("q1", 2)), None) is None
    assert (reading.ended, reading.failed, reading.rows) == (True, None, 2)
    assert reading.take(KEY, rows_headers("q1", 1), b"after the end\n") is None


def test_rows_that_are_missing_are_noticed() -> None:
    reading = ResultReading(JOB, "q1")
    reading.take(KEY, result_end_headers(ResultEnd("q1", 3)), None)
    assert reading.failed is not None
    assert "3 rows 0 are there" in reading.failed


def test_a_job_that_failed() -> None:
    reading = ResultReading(JOB, "q1")
    reading.take(KEY, result_end_headers(ResultEnd("q1", None, "no such airport")), None)
    assert (reading.ended, reading.failed) == (True, "no such airport")
