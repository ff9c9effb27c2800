"""What the Flights job must answer, computed the plain way: one row after the other, in Python.

Written from the meaning of the queries and not from the job: it shares no code with it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

RADIUS_MILES = 6371 / 1.609344
LINE_BYTES_MAX = 1024 * 1024
NUMBER = re.compile(r" *[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *")
COORDINATE = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *")
DURATION = re.compile(r"P(?:([0-9]{1,9})D)?(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})S)?)?")

Airports = dict[str, tuple[float, float]]
Row = tuple[str | float, ...]


@dataclass
class Answer:
    rows_read: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, Counter[str]] = field(default_factory=lambda: {"q2": Counter(), "q3": Counter()})
    average_fare: float | None = None
    q1: list[Row] = field(default_factory=list)
    q2: list[Row] = field(default_factory=list)
    q3: list[Row] = field(default_factory=list)
    q4: list[Row] = field(default_factory=list)


def lines_of(path: Path) -> list[bytes]:
    lines = [line.removesuffix(b"\r") for line in path.read_bytes().split(b"\n")]
    return [lines[0], *(line for line in lines[1:] if line)]


def number(text: str, pattern: re.Pattern[str] = NUMBER) -> float | None:
    value = float(text) if pattern.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def read_airports(path: Path) -> Airports:
    header, *lines = [line.decode("utf-8-sig").split(";") for line in lines_of(path)]
    code, latitude, longitude = (header.index(name) for name in ("Airport Code", "Latitude", "Longitude"))
    airports: Airports = {}
    for fields in lines:
        if len(fields) != len(header):
            continue
        position = number(fields[latitude], COORDINATE), number(fields[longitude], COORDINATE)
        if None not in position and fields[code].strip(" "):
            airports.setdefault(fields[code].strip(" "), position)  # type: ignore[arg-type] # no None in it
    return airports


def miles(start: tuple[float, float], end: tuple[float, float]) -> float:
    (a, b), (c, d) = (map(math.radians, position) for position in (start, end))
    h = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * RADIUS_MILES * math.asin(math.sqrt(h))


def seconds(duration: str) -> int | None:
    found = DURATION.fullmatch(duration)
    if not found or duration[-1] in "PT":
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def answer(itineraries: Path, airports_path: Path, fastest_of: str = "many-stopovers") -> Answer:
    airports = read_airports(airports_path)
    header, *lines = lines_of(itineraries)
    names = header.decode("utf-8-sig").split(",")
    result = Answer()
    flights = []
    for line in lines:
        result.rows_read += 1
        flight, reason = read_flight(line, names)
        if flight is None:
            result.rejected[reason] += 1
        else:
            flights.append(flight)
    asked: set[tuple[str, str]] = set()
    """Routes with a flight that has three stopovers or more."""
    of_route: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    timed: dict[tuple[str, str], list[tuple[int, bytes, float, bytes, str, dict[str, str]]]] = defaultdict(
        list
    )
    for flight in flights:
        route = flight["startingAirport"], flight["destinationAirport"]
        codes = flight["segmentsArrivalAirportCode"].split("||")
        fare = float(flight["totalFare"])
        flight["stopovers"] = "||".join(codes[:-1])
        if fastest_of == "all":
            of_route[route].append(flight)
        if len(codes) - 1 >= 3:
            asked.add(route)
            result.q1.append((flight["legId"], *route, fare, flight["stopovers"]))
            if fastest_of != "all":
                of_route[route].append(flight)
        total = total_distance(flight, codes, airports)
        if isinstance(total, str):
            result.left_out["q2"][total] += 1
        elif total > 4 * miles(airports[route[0]], airports[route[1]]):
            result.q2.append((flight["legId"], *route, total))
    for route in asked:
        for flight in of_route[route]:
            took = seconds(flight["travelDuration"])
            if took is None:
                result.left_out["q3"]["unparsable duration"] += 1
            else:
                order = (
                    took,
                    flight["legId"].encode(),
                    float(flight["totalFare"]),
                    flight["stopovers"].encode(),
                )
                timed[route].append((*order, flight["travelDuration"], flight))
    for route in sorted(timed, key=lambda route: (route[0].encode(), route[1].encode())):
        for *_, flight in sorted(timed[route], key=lambda entry: entry[:5])[:2]:
            result.q3.append((flight["legId"], *route, flight["travelDuration"], flight["stopovers"]))
    answer_fares(flights, result)
    return result


def read_flight(line: bytes, names: list[str]) -> tuple[dict[str, str] | None, str]:
    if len(line) > LINE_BYTES_MAX:
        return None, "line too long"
    try:
        fields = line.decode().split(",")
    except UnicodeDecodeError:
        return None, "invalid UTF-8"
    if len(fields) != len(names):
        return None, "wrong column count"
    flight = dict(zip(names, fields, strict=True))
    if not flight["legId"]:
        return None, "empty legId"
    if not flight["startingAirport"] or not flight["destinationAirport"]:
        return None, "empty airport"
    if number(flight["totalFare"]) is None:
        return None, "unparsable fare"
    return flight, ""


def total_distance(flight: dict[str, str], codes: list[str], airports: Airports) -> float | str:
    """Miles, or why query 2 has to do without this flight."""
    given = flight["totalTravelDistance"].strip(" ")
    ends = [flight["startingAirport"], flight["destinationAirport"]]
    if given:
        total = number(given)
        if total is None:
            return "unparsable distance"
        return total if all(code in airports for code in ends) else "unknown airport"
    if codes == [""]:
        return "no segments"
    path = [flight["startingAirport"], *codes]
    if not all(code in airports for code in ends + path):
        return "unknown airport"
    return sum(miles(airports[a], airports[b]) for a, b in pairwise(path))


def answer_fares(flights: list[dict[str, str]], result: Answer) -> None:
    if not flights:
        return
    fares = [float(flight["totalFare"]) for flight in flights]
    result.average_fare = math.fsum(fares) / len(fares)
    above: dict[tuple[str, str], list[float]] = defaultdict(list)
    for flight, fare in zip(flights, fares, strict=True):
        if fare > result.average_fare:
            above[flight["startingAirport"], flight["destinationAirport"]].append(fare)
    for route in sorted(above, key=lambda route: (route[0].encode(), route[1].encode())):
        result.q4.append((*route, math.fsum(above[route]) / len(above[route]), max(above[route])))


NUMERIC = {"totalFare", "totalTravelDistance", "avgFare", "maxFare"}
COLUMNS = {
    "q1": "legId,startingAirport,destinationAirport,totalFare,stopovers",
    "q2": "legId,startingAirport,destinationAirport,totalTravelDistance",
    "q3": "legId,startingAirport,destinationAirport,travelDuration,stopovers",
    "q4": "startingAirport,destinationAirport,avgFare,maxFare",
}


def read_results(folder: Path, query: str) -> list[Row]:
    # Not splitlines(), nor universal newlines: a lone carriage return is part of its field.
    header, *lines = (folder / f"{query}.csv").read_bytes().decode().split("\n")
    assert header == COLUMNS[query]
    assert lines.pop() == "", "the last line has no end"
    names = header.split(",")
    return [
        tuple(
            float(value) if name in NUMERIC else value
            for name, value in zip(names, line.split(","), strict=True)
        )
        for line in lines
    ]


def check_results(folder: Path, expected: Answer) -> None:
    """The files of a results folder say what the oracle says, averages within 1e-9 relative."""
    assert sorted(path.name for path in folder.iterdir()) == [*(f"{q}.csv" for q in COLUMNS), "summary.json"]
    for query in COLUMNS:
        wanted, found = getattr(expected, query), read_results(folder, query)
        if query in ("q1", "q2"):
            wanted, found = sorted(wanted), sorted(found)
        assert len(found) == len(wanted), query
        for one, other in zip(found, wanted, strict=True):
            assert is_same(one, other), f"{query}: {one} is not {other}"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary.pop("seconds") > 0
    average = summary.pop("average_fare")
    assert (average is None) == (expected.average_fare is None)
    assert average is None or math.isclose(average, expected.average_fare or 0, rel_tol=1e-9)
    assert summary == {
        "rows_read": expected.rows_read,
        "rows_rejected": expected.rejected.total(),
        "rejected": dict(expected.rejected),
        "left_out": {query: dict(reasons) for query, reasons in expected.left_out.items()},
        "queries": {query: len(getattr(expected, query)) for query in COLUMNS},
    }


def is_same(one: Row, other: Row) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True)
    )
