"""Rows of answers as they go out: lines of CSV as the service wrote them, or lines of JSON objects. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import orjson

from penstock.flights.records import RecordError, ResultEnd, parse_result
from penstock.pipelines.flights.schemas import RESULT_COLUMNS

if TYPE_CHECKING:
    from penstock.flights.records import Headers

NUMBERS: Final = frozenset({"totalFare", "totalTravelDistance", "avgFare", "maxFare"})
BYTES_AT_ONCE: Final = 64 * 1024
"""Turned into JSON without a pause for anybody else."""

DIGITS_MAX: Final = 18
"""More than that is no integer of 64 bits, perhaps."""


def header_line(query: str) -> bytes:
    return ",".join(RESULT_COLUMNS[query]).encode() + b"\n"


def to_ndjson(query: str, lines: bytes) -> Iterator[bytes]:
    """`lines` of CSV as objects, some lines at a time."""
    start = 0
    while start < len(lines):
        end = lines.find(b"\n", start + BYTES_AT_ONCE) + 1 or len(lines)
        yield to_objects(query, lines[start:end])
        start = end


def to_objects(query: str, lines: bytes) -> bytes:
    columns = RESULT_COLUMNS[query]
    numbers = [index for index, column in enumerate(columns) if column in NUMBERS]
    found = bytearray()
    for row in lines.decode(errors="replace").removesuffix("\n").split("\n"):
        fields: list[object] = list(row.split(","))
        for index in numbers:
            if index < len(fields):
                fields[index] = to_number(str(fields[index]))
        found += orjson.dumps(dict(zip(columns, fields, strict=False)))
        found += b"\n"
    return bytes(found)


def to_number(text: str) -> float | int | str | None:
    """A number, none if nothing is there; what is no number stays what it is."""
    if not text:
        return None
    try:
        return int(text) if text.isdigit() and len(text) < DIGITS_MAX else float(text)
    except ValueError:
        return text


class ResultReading:
    """The answers to one query of one job, picked out of a partition of `flights.results`."""

    def __init__(self, job: str, query: str) -> None:
        self._key = job.encode()
        self._query = query
        self.rows = 0
        """That were there so far."""
        self.ended = False
        self.failed: str | None = None
        """Why there will be no more, or why it cannot be right."""

    def take(self, key: bytes | None, headers: Headers, value: bytes | None) -> bytes | None:
        """Lines of CSV, if the next record has some for this reader."""
        if key != self._key or self.ended:
            return None
        try:
            found = parse_result(headers)
        except RecordError:
            return None  # not the service's
        if found.query != self._query:
            return None
        if not isinstance(found, ResultEnd):
            self.rows += found.rows
            return value
        self.ended = True
        if found.failed is not None:
            self.failed = found.failed
        elif found.rows != self.rows:
            self.failed = f"of {found.rows} rows {self.rows} are there: the others are not kept any more"
        return None
