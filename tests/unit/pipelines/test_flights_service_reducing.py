"""What a task makes of a part of a job: its file, rows of queries 1 and 2, figures, and failures."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipelines.flights.service import messages
from penstock.pipelines.flights.service.entry import Piece
from penstock.pipelines.flights.service.ledger import LOST, AirportsReady
from penstock.pipelines.flights.service.plan import Part
from penstock.pipelines.flights.service.reducing import _guarded, write_airports

HEADER = (
    "legId,startingAirport,destinationAirport,travelDuration,totalFare,totalTravelDistance,"
    "segmentsArrivalAirportCode\n"
)
ROWS = (
    b"a,AAA,BBB,PT1H,10.5,9,CCC||DDD||CCC||BBB\n"
    b"b,AAA,BBB,PT1H,20,99999,BBB\n"
    b"c,AAA,BBB,PT1H,cheap,9,BBB\n"
    b"too,short\n"
)


@pytest.fixture
def part(tmp_path: Path) -> Part:
    segment = tmp_path / "segment"
    airports = b"AAA;0;0\nBBB;0;1\n"
    segment.write_bytes(b"\n" + airports + ROWS)
    first, second = Piece(str(segment), 1, len(airports)), Piece(str(segment), 1 + len(airports), len(ROWS))
    path = write_airports(AirportsReady("job", "Airport Code;Latitude;Longitude\n", (first,)), str(tmp_path))
    assert set(json.loads(Path(path).read_text())) == {"AAA", "BBB"}
    return Part("job", HEADER, path, (second,))


def test_rows_and_figures(part: Part, tmp_path: Path) -> None:
    first, second, figures = _guarded(part, str(tmp_path))
    assert (first["query"], first["rows"], first["text"]) == ("q1", 1, "a,AAA,BBB,10.5,CCC||DDD||CCC\n")
    assert (second["query"], second["rows"], second["text"]) == ("q2", 1, "b,AAA,BBB,99999\n")
    assert (figures["rows_read"], figures["rows_rejected"]) == (4, 2)
    with pa.memory_map(figures["file"]) as file, pa.ipc.open_file(file) as reader:
        assert sum(filter(None, reader.read_all()["flights"].to_pylist())) == 4


def test_a_file_that_is_gone_is_the_end_of_its_job(part: Part, tmp_path: Path) -> None:
    Path(part.pieces[0].path).unlink()
    before = set(tmp_path.rglob("*"))
    assert _guarded(part, str(tmp_path)) == [{"job": "job", "error": LOST}]
    assert set(tmp_path.rglob("*")) == before


def test_results_fit_into_records() -> None:
    text = "".join(f"row {number}\n" for number in range(1000))
    parts = list(messages.parts(1000, text, bytes_max=100))
    assert "".join(part for _, part in parts) == text
    assert all(len(part) <= 100 and part.count("\n") == rows for rows, part in parts)
    assert list(messages.parts(1, "x" * 200 + "\n", bytes_max=100)) == [(1, "x" * 200 + "\n")]


def test_a_carriage_return_in_a_field_is_no_end_of_a_line() -> None:
    parts = list(messages.parts(2, "a\rb\nc\u2028d\n", bytes_max=4))
    assert parts == [(1, "a\rb\n"), (1, "c\u2028d\n")]
