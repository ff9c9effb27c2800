"""The Flights job against a plain Python oracle: generated tables and nasty files.

No row of the public data set is used. Generated tables have its schema and its habits, which
tests/unit/pipelines/test_flights_generate.py checks; the line ends of its files are among the cases here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipelines.flights import job
from penstock.pipelines.flights.generate import generate
from penstock.pipelines.flights.reading import read_airports
from penstock.pipelines.flights.service import computing
from penstock.pipelines.flights.service.entry import Piece
from penstock.pipelines.flights.service.ledger import Computing
from penstock.pipelines.flights.service.plan import Part
from penstock.pipelines.flights.service.reducing import reduce_part
from tests.support import flights_oracle as oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.flights.records import FastestOf
    from penstock.pipelines.flights.output import Summary

ROWS, RANGE_BYTES = 3_000, 150_000
HEADER = (
    "legId,startingAirport,destinationAirport,travelDuration,totalFare,totalTravelDistance,"
    "segmentsArrivalAirportCode"
)
AIRPORTS = (
    "\ufeffAirport Code;Latitude;Longitude\r\n"
    "AAA;10;20\r\nBBB;11.5;-20\r\nCCC;-33;151\r\nDDD;0;0\r\nEEE;90;0\r\nNNN;\\N;\\N\r\n---;1;1\r\n"
    "AAA;50;50\r\nGGG;1\r\nHHH;x;1\r\nIII; 4 ;1e1\r\n"
)


def check(
    spark: SparkSession,
    folder: Path,
    *,
    range_bytes: int | None = None,
    by_spark: bool = False,
    fastest_of: FastestOf = "many-stopovers",
) -> Summary:
    """Runs the job on the two files of a folder and compares everything with the oracle."""
    itineraries = job.itineraries_file(str(folder / "itineraries.csv"))
    if range_bytes:
        itineraries = replace(itineraries, range_bytes=range_bytes)
    itineraries = replace(itineraries, by_spark=by_spark)
    airports = replace(job.airports_file(str(folder / "airports.csv")), by_spark=by_spark)
    out = folder / "results"
    summary = job.run_in(spark, itineraries, airports, str(out), fastest_of=fastest_of)
    expected = oracle.answer(folder / "itineraries.csv", folder / "airports.csv", fastest_of)
    oracle.check_results(out, expected)
    return summary


def write(folder: Path, itineraries: str | bytes, airports: str = AIRPORTS) -> Path:
    data = itineraries if isinstance(itineraries, bytes) else itineraries.encode()
    (folder / "itineraries.csv").write_bytes(data)
    (folder / "airports.csv").write_bytes(airports.encode())
    return folder


def row(
    leg: str = "x",
    start: str = "AAA",
    end: str = "BBB",
    duration: str = "PT4H19M",
    fare: str = "100.50",
    distance: str = "900",
    arrivals: str = "CCC||BBB",
) -> str:
    return ",".join([leg, start, end, duration, fare, distance, arrivals])


UNTIMED = "unparsable duration"
FARES = (
    *("0", "0.00", "12.", ".5", "1e3", "1E+2", " 12 ", "+7", "99999999999999999999", "123456.789", "007"),
    *(
        "",
        " ",
        "abc",
        "-1",
        "NaN",
        "Infinity",
        "1e999",
        "0x1p3",
        "12d",
        "1f",
        "1,5",
        "$5",
        "1 2",
        "١٢",
        "12\r",
    ),
)
DISTANCES = (
    "0",
    "947",
    "99999",
    "1e4",
    " 25000 ",
    "",
    " ",
    "abc",
    "-5",
    "NaN",
    "1e999",
    "None",
    "0x10",
    "1e-3",
)
DURATIONS = (
    *("PT4H19M", "PT5H", "PT45M", "P1DT19M", "P1DT2H5M", "P2D", "PT0M", "PT90M", "PT59S", "P1DT86400S"),
    *(
        "",
        "P",
        "PT",
        "P1DT",
        "P1",
        "4H19M",
        "PT4H19",
        "PT1.5H",
        "PT-4H",
        "P1W",
        " PT4H",
        "PT9999999999H",
        "pt4h",
    ),
)
MANY = "BBB||CCC||DDD||BBB"
ODD_ARRIVALS = (
    *(
        "",
        "BBB",
        "BBB||",
        "||",
        "||||||",
        "A|||B",
        "BBB|||CCC|||DDD||BBB",
        "BBB||ZZZ",
        "NNN||BBB",
        "DDD||EEE||BBB",
    ),
    *("BBB||CCC||DDD||AAA||BBB", "|||||||", "None||None||None||None"),
)


def nasty_rows() -> list[str]:
    ends = [
        ("AAA", "AAA"),
        ("AAA", "ZZZ"),
        ("ZZZ", "AAA"),
        ("NNN", "AAA"),
        ("", "AAA"),
        ("AAA", ""),
        ("---", "III"),
    ]
    return [
        *(row(f"fare{n}", fare=fare) for n, fare in enumerate(FARES)),
        *(row(f"distance{n}", distance=distance) for n, distance in enumerate(DISTANCES)),
        *(row(f"duration{n}", duration=duration, arrivals=MANY) for n, duration in enumerate(DURATIONS)),
        *(row(f"arrivals{n}", distance="", arrivals=arrivals) for n, arrivals in enumerate(ODD_ARRIVALS)),
        *(row(f"many{n}", end="DDD", arrivals=arrivals) for n, arrivals in enumerate(ODD_ARRIVALS)),
        *(row(f"ends{n}", start, end) for n, (start, end) in enumerate(ends)),
        *(row(f"ends{n}", start, end, distance="") for n, (start, end) in enumerate(ends)),
        *[row("same", arrivals=MANY, distance="")] * 3,
        *(row("tie", "CCC", fare=fare, arrivals=MANY) for fare in ("9", "10", "9")),
        *(row(leg, "DDD", arrivals=MANY) for leg in ("é", "z", "Z", "\U0001f6eb", "\uff5e")),
        row(""),
        "one,column,too,few,1,2",
        row() + ",",
        "   ",
        HEADER,
    ]


def test_generated_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Read by Arrow in ranges and by Spark, which is to make no difference."""
    generate(ROWS, str(tmp_path), seed=1)
    itineraries = tmp_path / "itineraries.csv"
    itineraries.write_bytes(itineraries.read_bytes().replace(b"\n", b"\r\n"))
    by_arrow = check(spark, tmp_path, range_bytes=RANGE_BYTES)
    assert itineraries.stat().st_size > 4 * RANGE_BYTES
    assert all(by_arrow.queries.values())
    assert by_arrow.left_out["q2"]
    assert by_arrow.rows_read == ROWS
    # The sum of the fares is taken in another order; the oracle has checked both.
    same = {"seconds": 0, "average_fare": None}
    by_spark = check(spark, tmp_path, by_spark=True)
    assert replace(by_arrow, **same) == replace(by_spark, **same)


def test_the_fastest_of_all_flights_of_routes_with_many_stopovers(
    spark: SparkSession, tmp_path: Path
) -> None:
    generate(ROWS, str(tmp_path), seed=2)
    those = check(spark, tmp_path)
    every = check(spark, tmp_path, range_bytes=RANGE_BYTES, fastest_of="all")
    assert every.queries["q3"] >= those.queries["q3"] > 0
    assert (every.queries["q1"], every.queries["q2"]) == (those.queries["q1"], those.queries["q2"])
    rows = [row("9h", duration="PT9H", arrivals=MANY), row("3h", duration="PT3H"), row("2h", duration="PT2H")]
    rows += [row("elsewhere", "CCC", duration="PT1H"), row("no time", duration="soon")]
    rows += [row("no time elsewhere", "CCC", duration="soon"), row("", duration="PT1H")]
    write(tmp_path, "\n".join([HEADER, *rows]))
    for fastest_of, legs, untimed in (("many-stopovers", ["9h"], {}), ("all", ["2h", "3h"], {UNTIMED: 1})):
        summary = check(spark, tmp_path, fastest_of=fastest_of)  # type: ignore[arg-type]  # one of them
        assert [found[0] for found in oracle.read_results(tmp_path / "results", "q3")] == legs
        assert summary.left_out["q3"] == untimed


def test_jobs_of_the_service_that_ask_for_different_flights(spark: SparkSession, tmp_path: Path) -> None:
    """In one go, as it answers them, and each reduced in parts."""
    generate(ROWS, str(tmp_path), seed=3)
    header, *lines = (tmp_path / "itineraries.csv").read_bytes().splitlines(keepends=True)
    positions = read_airports(spark, job.airports_file(str(tmp_path / "airports.csv")))
    (tmp_path / "airports.json").write_text(positions.to_json())
    begin, cut = len(header), len(header) + sum(map(len, lines[: len(lines) // 3]))
    size = cut + sum(map(len, lines[len(lines) // 3 :]))
    path = str(tmp_path / "itineraries.csv")
    pieces = Piece(path, begin, cut - begin), Piece(path, cut, size - cut)
    asked: dict[str, FastestOf] = {"one": "many-stopovers", "other": "all"}
    jobs = []
    for name, fastest_of in asked.items():
        of_all = fastest_of == "all"
        for number, piece in enumerate(pieces):
            part = Part(name, header.decode(), str(tmp_path / "airports.json"), (piece,), of_all)
            reduce_part(part, str(tmp_path / f"{name}-{number}"))
        files = tuple(str(tmp_path / f"{name}-{number}") for number in range(len(pieces)))
        jobs.append(Computing(name, files, 0, {"q1": 0, "q2": 0}, of_all))
    answered = computing.answer(spark, jobs, 2)
    for name, fastest_of in asked.items():
        expected = oracle.answer(tmp_path / "itineraries.csv", tmp_path / "airports.csv", fastest_of)
        text = "".join(text for query, _, text in answered[name].texts if query == "q3")
        assert [tuple(line.split(",")) for line in text.splitlines()] == expected.q3
        assert answered[name].summary["left_out"]["q3"] == dict(expected.left_out["q3"])


@pytest.mark.parametrize("fastest_of", ["many-stopovers", "all"])
@pytest.mark.parametrize("by_spark", [False, True], ids=["arrow", "spark"])
def test_a_nasty_table(spark: SparkSession, tmp_path: Path, by_spark: bool, fastest_of: FastestOf) -> None:
    """Each row once with either end of a line."""
    bad_rows = [row("caf\xe9").encode("latin-1"), row("bad", distance="\xff").encode("latin-1")]
    rows = [b"", *(each.encode() for each in nasty_rows()), b"", *bad_rows]
    lines = [each + end for end in (b"\n", b"\r\n") for each in rows]
    table = b"\xef\xbb\xbf" + HEADER.encode() + b"\n" + b"".join(lines) + row("last").encode()
    summary = check(spark, write(tmp_path, table), by_spark=by_spark, fastest_of=fastest_of)
    assert set(summary.rejected) == {
        *("wrong column count", "empty legId", "empty airport", "unparsable fare", "invalid UTF-8"),
    }
    assert summary.rejected["invalid UTF-8"] == 4
    assert set(summary.left_out["q2"]) == {"unknown airport", "unparsable distance", "no segments"}
    assert set(summary.left_out["q3"]) == {"unparsable duration"}


def test_other_column_order_extra_columns_lines_that_are_too_long_and_no_last_newline(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ["extra", *reversed(HEADER.split(",")), "more"]
    lines = [
        ",".join(["", *reversed(line.split(",")), "\xe9"]) for line in nasty_rows() if line.count(",") == 6
    ]
    long = "x" * (3 << 20)
    text = "\n".join([",".join(names), long, *lines, long, lines[0]])
    summary = check(spark, write(tmp_path, text), range_bytes=1_000_000)
    assert summary.rejected["line too long"] == 2


def test_a_table_without_rows_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    check_empty(check(spark, write(tmp_path, HEADER), by_spark=True))


def test_a_table_without_rows_and_earlier_results_that_are_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    check_empty(check(spark, write(tmp_path, HEADER)))
    write(tmp_path, HEADER + "\n" + row() + "\n" + row())
    assert check(spark, tmp_path).rows_read == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["airports.csv", "itineraries.csv", "results"]


def check_empty(summary: Summary) -> None:
    assert summary.rows_read == 0
    assert summary.average_fare is None
