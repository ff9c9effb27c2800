"""The generator: schema and habits of the public data set, as the design describes them; the same files for
the same seed, nothing half-written.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from penstock.pipelines.flights.generate import BLOCK_ROWS, generate
from penstock.pipelines.flights.itineraries import iso_duration
from penstock.pipelines.flights.places import PLACES, miles_between

ROWS = 2 * BLOCK_ROWS + 17


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    generate(ROWS, str(folder), seed=3)
    return folder


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "itineraries.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, quoting=csv.QUOTE_NONE))


def test_the_same_seed_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    generate(ROWS, str(tmp_path), seed=3)
    for name in ("itineraries.csv", "airports.csv"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    generate(ROWS, str(tmp_path), seed=4)
    assert (tmp_path / "itineraries.csv").read_bytes() != (folder / "itineraries.csv").read_bytes()


def test_every_row_is_complete_and_its_segments_agree(rows: list[dict[str, str]]) -> None:
    assert len(rows) == ROWS
    for row in rows:
        assert len(row) == 27
        assert re.fullmatch(r"[0-9a-f]{32}", row["legId"])
        assert re.fullmatch(r"\d+\.\d\d", row["totalFare"])
        assert re.fullmatch(r"P(\d+D)?(T(\d+H)?(\d+M)?)?", row["travelDuration"])
        legs = len(row["segmentsArrivalAirportCode"].split("||"))
        for name, value in row.items():
            if name.startswith("segments"):
                assert len(value.split("||")) == legs, name
        distances = row["segmentsDistance"].split("||")
        if row["totalTravelDistance"]:
            assert int(row["totalTravelDistance"]) == sum(map(int, distances))
        else:
            assert set(distances) == {"None"}


def test_the_habits_that_the_public_table_is_known_for(rows: list[dict[str, str]]) -> None:
    shares = Counter[str]()
    for row in rows:
        codes = row["segmentsArrivalAirportCode"].split("||")
        shares["no distance"] += not row["totalTravelDistance"]
        shares["many stopovers"] += len(codes) > 3
        shares["other start"] += row["segmentsDepartureAirportCode"].split("||")[0] != row["startingAirport"]
        shares["other end"] += codes[-1] != row["destinationAirport"]
        shares["unlisted"] += "MVY" in codes
        direct = miles_between(PLACES[row["startingAirport"]], PLACES[row["destinationAirport"]])
        shares["far"] += bool(row["totalTravelDistance"]) and int(row["totalTravelDistance"]) > 4 * direct
        shares["a day"] += row["travelDuration"].startswith("P1D")
    assert 0.05 < shares["no distance"] / ROWS < 0.10
    assert 0.001 < shares["many stopovers"] / ROWS < 0.02
    assert all(shares.values())
    assert len({row["legId"] for row in rows}) < ROWS
    assert len({tuple(row.values()) for row in rows}) < ROWS


def test_the_airports_file(folder: Path) -> None:
    data = (folder / "airports.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbfAirport Code;")
    assert data.count(b"\r\n") == data.count(b"\n")
    codes = [line.split(";")[0] for line in data.decode().splitlines()]
    assert {"ATL", "0A7", "---"} <= set(codes)
    assert "MVY" not in codes
    assert b";\\N;" in data


def test_an_interrupted_run_leaves_the_old_files(tmp_path: Path) -> None:
    generate(10, str(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(10, str(tmp_path), seed=1, progress=interrupt)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (259, "PT4H19M"),
        (300, "PT5H"),
        (45, "PT45M"),
        (1459, "P1DT19M"),
        (1565, "P1DT2H5M"),
        (1440, "P1D"),
        (0, "PT0M"),
    ],
)
def test_durations(minutes: int, text: str) -> None:
    assert iso_duration(minutes) == text
