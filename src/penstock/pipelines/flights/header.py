"""The header line of a CSV file: where the needed columns are. Pure, and without Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BYTE_ORDER_MARK: Final = "\ufeff"


class CsvError(Exception):
    """A file that cannot be used at all; the message is one line and names the file."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the needed columns are."""

    delimiter: str
    width: int
    """Columns in a line of the file."""
    columns: tuple[str, ...]
    indexes: tuple[int, ...]


def parse_header(line: bytes, columns: Sequence[str], delimiter: str, path: str) -> Layout:
    """The layout of a file whose first line is `line`; a CsvError if it does not have the columns."""
    try:
        header = line.decode().removeprefix(BYTE_ORDER_MARK).rstrip("\r\n")
    except UnicodeDecodeError:
        raise CsvError(f"{path}: the header line is not UTF-8") from None
    if not header.strip():
        raise CsvError(f"{path}: no header line" if line else f"{path}: the file is empty")
    names = [name.strip() for name in header.split(delimiter)]
    missing = [column for column in columns if column not in names]
    if missing and len(names) == 1:
        raise CsvError(
            f"{path}: no {delimiter!r} in the header line, so it has not the column {missing[0]!r}"
        )
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise CsvError(f"{path}: missing column{plural} {', '.join(map(repr, missing))}")
    for column in columns:
        if names.count(column) > 1:
            raise CsvError(f"{path}: the column {column!r} is there more than once")
    return Layout(delimiter, len(names), tuple(columns), tuple(map(names.index, columns)))
