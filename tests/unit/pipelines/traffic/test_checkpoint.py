"""A checkpoint is for one map, one window, and one job at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.pipelines.claim import FolderError
from penstock.pipelines.traffic.checkpoint import ABOUT, claimed_checkpoint
from penstock.pipelines.traffic.tally import Shape
from penstock.traffic.grid import DEFAULT_GRID, Grid

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = Shape(5_000, DEFAULT_GRID)


def test_it_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "checkpoint"
    for name in (str(folder), str(folder), f"file://{folder}"):
        with claimed_checkpoint(name, SHAPE) as spark:
            assert spark == str(folder / "spark")


@pytest.mark.parametrize("other", [Shape(1_000, DEFAULT_GRID), Shape(5_000, Grid(DEFAULT_GRID.bbox, 1, 1))])
def test_another_map_or_window_is_refused(tmp_path: Path, other: Shape) -> None:
    with claimed_checkpoint(str(tmp_path), SHAPE):
        pass
    with (
        pytest.raises(FolderError, match="is a checkpoint for windows of 5000 ms"),
        claimed_checkpoint(str(tmp_path), other),
    ):
        pass
    with claimed_checkpoint(str(tmp_path), SHAPE):
        pass


def test_only_one_job_has_it(tmp_path: Path) -> None:
    with claimed_checkpoint(str(tmp_path), SHAPE), pytest.raises(FolderError, match="in use by another"):  # noqa: SIM117
        with claimed_checkpoint(str(tmp_path), SHAPE):
            pass


def test_folders_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="not empty"), claimed_checkpoint(str(tmp_path), SHAPE):
        pass
    with (
        pytest.raises(FolderError, match="Not a directory"),
        claimed_checkpoint(str(tmp_path / "file" / "x"), SHAPE),
    ):
        pass
    (tmp_path / ABOUT).write_bytes(b"{")
    with pytest.raises(FolderError, match="is damaged"), claimed_checkpoint(str(tmp_path), SHAPE):
        pass


def test_another_file_system_is_left_to_spark() -> None:
    with claimed_checkpoint("hdfs://host/folder/", SHAPE) as spark:
        assert spark == "hdfs://host/folder/spark"
