"""Chunks by number, in whatever order they are asked for, are those that cutting from the top gives."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.flights.chunks import cut
from penstock.flights.errors import UploadError
from penstock.flights.numbered_chunks import NumberedChunks

HEADER = b"Airport Code;Latitude;Longitude\n"
CHUNK = 48
lines = st.lists(st.binary(max_size=CHUNK - 2).map(lambda line: line.replace(b"\n", b"\r")), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=lines, ends=st.booleans(), data=st.data())
def test_any_order(tmp_path: Path, texts: list[bytes], ends: bool, data: st.DataObject) -> None:
    content = HEADER + b"\n".join(texts) + (b"\n" if ends and texts else b"")
    path = tmp_path / "airports.csv"
    path.write_bytes(content)
    expected = list(cut(io.BytesIO(content).read, CHUNK))
    with NumberedChunks(str(path), "airports", CHUNK) as chunks:
        for number in data.draw(st.lists(st.integers(0, len(expected)), max_size=20)):
            assert chunks.at(number) == (expected[number] if number < len(expected) else None)
            assert chunks.start(number) == len(b"".join(expected[:number]))
        with pytest.raises(UploadError, match=f"it has {len(expected)} chunks, and the job has"):
            chunks.at(len(expected) + 1)
        chunks.require_size(len(b"".join(expected)))
        with pytest.raises(UploadError, match="not the same file"):
            chunks.require_size(len(content) + 2)


def test_a_long_line_has_its_number_from_the_top(tmp_path: Path) -> None:
    path = tmp_path / "airports.csv"
    path.write_bytes(HEADER + b"a;1;2\n" * 20 + b"x" * CHUNK + b"\nb;1;2\n")
    with NumberedChunks(str(path), "airports", CHUNK) as chunks:
        assert chunks.at(1) == b"a;1;2\n" * 8
        with pytest.raises(UploadError, match=rf"{path}: line 22 is longer than {CHUNK} bytes"):
            chunks.at(6)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"\n", "the file is empty"),
        (b"Airport Code;Latitude\n", "missing column 'Longitude'"),
        (b"\xff\n", "the header line is not UTF-8"),
    ],
)
def test_a_header_that_is_wrong(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "airports.csv"
    path.write_bytes(content)
    with pytest.raises(UploadError, match=f"{path}: {says}"):
        NumberedChunks(str(path), "airports")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, says in (
        (tmp_path, "Is a directory"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "nothing", "No such file or directory"),
    ):
        with pytest.raises(UploadError, match=f"{path}: {says}"):
            NumberedChunks(str(path), "airports")
