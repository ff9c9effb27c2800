"""CSV bytes to batches: every cut of a file gives the same rows, and no line is lost."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.flights import csv_blocks
from penstock.pipelines.flights.csv_blocks import read_header, read_range
from penstock.pipelines.flights.csv_source import arrow_can_open, plan_ranges
from penstock.pipelines.flights.header import CsvError, parse_header

if TYPE_CHECKING:
    import pyarrow as pa

HEADER = b"a,b,c\n"
COLUMNS = ("c", "a")

Rows = list[tuple[str | None, ...]]


def rows_of(batches: list[pa.RecordBatch]) -> Rows:
    return sorted(
        (tuple(row.values()) for batch in batches for row in batch.to_pylist()),
        key=lambda row: [value or "" for value in row],
    )


def read(data: bytes, *, range_bytes: int = 1 << 20, block_bytes: int = 1 << 20) -> Rows:
    file = BytesIO(HEADER + data)
    layout, start = read_header(file, COLUMNS, ",", "file.csv")
    batches: list[pa.RecordBatch] = []
    for part in plan_ranges(start, len(HEADER + data), range_bytes, 1):
        batches += read_range(file, part.start, part.end, layout, block_bytes=block_bytes)
    return rows_of(batches)


def expected(data: bytes) -> Rows:
    rows: Rows = []
    for line in data.split(b"\n"):
        stripped = line.removesuffix(b"\r")
        if not stripped:
            continue
        try:
            fields = stripped.decode().split(",")
        except UnicodeDecodeError:
            rows.append((None, None, "invalid UTF-8"))
            continue
        rows.append((fields[2], fields[0], None) if len(fields) == 3 else (None, None, "wrong column count"))
    return sorted(rows, key=lambda row: [value or "" for value in row])


LINES = st.lists(
    st.one_of(
        st.lists(
            st.sampled_from([b"", b"x", b"12.5", "é".encode(), b'"', b"\xff", b"a\rb", b"\\N", b" "]),
            max_size=4,
        ).map(b",".join),
        st.just(b"1,2,3"),
    ).flatmap(lambda line: st.sampled_from([line + b"\n", line + b"\r\n"])),
    max_size=8,
)


@given(LINES, st.booleans(), st.integers(1, 40), st.integers(1, 40))
def test_every_cut_gives_the_same_rows(
    lines: list[bytes], is_cut: bool, range_bytes: int, block_bytes: int
) -> None:
    data = b"".join(lines)
    if is_cut:
        data = data.removesuffix(b"\n")
    assert read(data, range_bytes=range_bytes, block_bytes=block_bytes) == expected(data)


def test_long_lines_are_rejected_wherever_they_begin_and_however_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(csv_blocks, "LINE_BYTES_MAX", 20)
    long, good, longest = b"x" * 21, b"1,2,3", b"4,5," + b"6" * 16
    data = b"\n".join([long, good, long, long, good, longest, long * 3, good, long])
    wanted = sorted(
        [("3", "1", None)] * 3 + [("6" * 16, "4", None)] + [(None, None, "line too long")] * 5,
        key=lambda row: [value or "" for value in row],
    )
    for range_bytes in (5, 17, 50, 1000):
        for block_bytes in (7, 23, 64, 1000):
            assert read(data, range_bytes=range_bytes, block_bytes=block_bytes) == wanted


def test_the_header_is_found_by_names_in_any_order_and_without_its_byte_order_mark() -> None:
    layout = parse_header("\ufeffx;b;a\r\n".encode(), ("a", "x"), ";", "f")
    assert (layout.width, layout.indexes) == (3, (2, 0))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "the file is empty"),
        (b"\n", "no header line"),
        (b"a,b\n", "missing column 'c'"),
        (b"x,y\n", "missing columns 'c', 'a'"),
        (b"a;b;c\n", "no ',' in the header line"),
        (b"a,c,a\n", "'a' is there more than once"),
        (b"\xff\xfe,c,a\n", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(line: bytes, complaint: str) -> None:
    with pytest.raises(CsvError, match=f"^f: .*{complaint}"):
        parse_header(line, COLUMNS, ",", "f")


def test_an_endless_header_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "LINE_BYTES_MAX", 10)
    with pytest.raises(CsvError, match="longer than"):
        read_header(BytesIO(b"a,b,c" * 10), COLUMNS, ",", "f")


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**5), st.integers(1, 8))
def test_ranges_cover_the_file_once(start: int, length: int, range_bytes: int, parallelism: int) -> None:
    ranges = plan_ranges(start, start + length, max(range_bytes, length // 1000 or 1), parallelism)
    assert ranges[0].start == start
    assert ranges[-1].end == start + length
    assert all(one.end == other.start for one, other in pairwise(ranges))
    assert all(part.end - part.start <= max(range_bytes, length // 1000 or 1) for part in ranges)


def test_what_arrow_opens() -> None:
    assert arrow_can_open("/data/x.csv")
    assert arrow_can_open("x.csv")
    assert arrow_can_open("file:///data/x.csv")
    for path in ("hdfs://host/x.csv", "s3a://bucket/x.csv", "x.csv.gz"):
        assert not arrow_can_open(path)
