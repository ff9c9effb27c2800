from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.spark.errors import SourceError
from penstock.spark.rows import rows, written
from penstock.spark.staging import (
    Staged,
    Task,
    read_staged,
    remove_folder,
    remove_left_over,
    remove_old_batches,
    remove_staged,
    stage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK = Task("q", "r", "0", "0-1.arrow")


def batches(*numbers: int) -> Iterator[pa.RecordBatch]:
    """One batch for each number, with so many rows."""
    for count in numbers:
        values = [b"%d" % index for index in range(count)]
        columns = {"offset": list(range(count)), "value": values, "topic": ["t"] * count}
        yield pa.RecordBatch.from_pydict(columns)


def test_rows_come_back_in_their_order(tmp_path: Path) -> None:
    staged = stage(batches(0, 3, 0, 2), None, tmp_path / "a" / "b", TASK)
    found = [row for batch in read_staged(staged) for row in rows(batch, None)]
    assert [(topic, value) for topic, value, *_ in found] == [
        ("t", b"0"), ("t", b"1"), ("t", b"2"), ("t", b"0"), ("t", b"1"),
    ]  # fmt: skip
    assert (staged.rows, staged.query, staged.run) == (5, "q", "r")
    assert staged.path is not None
    assert staged.bytes == Path(staged.path).stat().st_size


def test_no_rows_no_file(tmp_path: Path) -> None:
    staged = stage(batches(0), "t", tmp_path / "a", TASK)
    assert staged.path is None
    assert list(read_staged(staged)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(2)
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        stage(failing(), "t", tmp_path, TASK)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=r"rows cannot be staged in .*file/folder on "):
        stage(batches(1), "t", tmp_path / "file" / "folder", TASK)


def test_files_that_are_not_what_was_staged(tmp_path: Path) -> None:
    staged = stage(batches(3), "t", tmp_path, TASK)
    assert staged.path is not None
    other = stage(batches(2), "t", tmp_path, Task("q", "r", "0", "1-2.arrow"))
    with pytest.raises(SourceError, match="has 2 rows and not 3"):
        list(read_staged(Staged("q", "r", other.path, 3, 1, "h")))
    whole = Path(staged.path).read_bytes()
    Path(staged.path).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"which was staged on .* is damaged"):
        list(read_staged(staged))
    remove_staged([staged, other, staged])
    with pytest.raises(SourceError, match=r"set the option staging to a folder that .* share"):
        list(read_staged(staged))


def test_what_is_left_over(tmp_path: Path) -> None:
    for name in ("old/3", "old/4", "now/2", "now/3", "now/4"):
        stage(batches(1), "t", tmp_path / name, TASK)
    remove_left_over(tmp_path, "now", 3)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.glob("*/*"))] == ["now/4"]
    assert not (tmp_path / "old").exists()
    remove_left_over(tmp_path / "nowhere", "now", 3)
    remove_folder(tmp_path / "nowhere")


def test_old_batches(tmp_path: Path) -> None:
    for name in ("batch-old", "batch-new", "somebody-elses"):
        stage(batches(1), "t", tmp_path / name, TASK)
        if name != "batch-new":
            os.utime(tmp_path / name, (1, 1))
    remove_old_batches(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["batch-new", "somebody-elses"]


def test_the_option_topic_wins_over_the_column() -> None:
    (batch,) = batches(1)
    assert written(batch, None).schema.names == ["topic", "value"]
    assert list(rows(written(batch, "other"), "other")) == [("other", b"0", None, -1, None)]


def test_rows_are_taken_in_small_pieces() -> None:
    """Large values are not all turned to Python at the same time, and none is lost on the way."""
    values = [bytes([index]) * 3_000_000 for index in range(10)]
    batch = pa.RecordBatch.from_pydict({"value": values})
    assert [value for _, value, *_ in rows(batch, "t")] == values
