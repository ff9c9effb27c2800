"""The results folder appears as a whole, or stays as it was."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.flights.output import OutputError, Summary, results_folder
from penstock.pipelines.flights.text import csv_text

SUMMARY = Summary(1, 0, {}, {"q2": {}, "q3": {}}, 2.5, dict.fromkeys(("q1", "q2", "q3", "q4"), 0), 0.1)


def write(path: Path, text: str = "") -> None:
    with results_folder(str(path)) as folder:
        folder.write_results([("q1", text)])
        folder.write_summary(SUMMARY)


def test_all_files_or_none(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "results"
    write(out, "a,b,c,1,d\n")
    assert sorted(path.name for path in out.iterdir()) == [
        "q1.csv",
        "q2.csv",
        "q3.csv",
        "q4.csv",
        "summary.json",
    ]
    assert (out / "q1.csv").read_text().endswith("\na,b,c,1,d\n")
    before = (out / "q1.csv").read_text()

    def fail() -> None:
        with results_folder(str(out)) as folder:
            folder.write_results([("q1", "half")])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (out / "q1.csv").read_text() == before
    write(out, "new\n")
    assert (out / "q1.csv").read_text().endswith("\nnew\n")
    assert [path.name for path in out.parent.iterdir()] == ["results"]


def test_an_empty_folder_is_used_and_other_files_are_not_removed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(OutputError, match=r"thesis\.txt"):
        write(tmp_path / "mine")
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="Not a directory"):
        write(tmp_path / "file")
    with pytest.raises(OutputError, match="Not a directory"):
        write(tmp_path / "file" / "below")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "mine"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_and_are_as_short_as_can_be(value: float) -> None:
    text = csv_text(pa.RecordBatch.from_pydict({"x": pa.array([value], pa.float64())})).removesuffix("\n")
    assert struct.pack("d", float(text)) == struct.pack("d", value)

    def digits(number: str) -> str:
        return number.lower().partition("e")[0].replace(".", "").lstrip("-0").rstrip("0")

    assert digits(text) == digits(repr(value))
    assert not text.endswith(".0")
