"""A checkpoint is for one map, one window, and one job at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.pipelines.traffic.checkpoint import ABOUT, CheckpointError, claimed
from penstock.pipelines.traffic.tally import Shape
from penstock.traffic.grid import DEFAULT_GRID, Grid

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = Shape(5_000, DEFAULT_GRID)


def test_it_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "checkpoint"
    for name in (str(folder), str(folder), f"file://{folder}"):
        with claimed(name, SHAPE) as spark:
            assert spark == str(folder / "spark")


@pytest.mark.parametrize("other", [Shape(1_000, DEFAULT_GRID), Shape(5_000, Grid(DEFAULT_GRID.bbox, 1, 1))])
def test_another_map_or_window_is_refused(tmp_path: Path, other: Shape) -> None:
    with claimed(str(tmp_path), SHAPE):
        pass
    with (
        pytest.raises(CheckpointError, match="is a checkpoint for windows of 5000 ms"),
        claimed(str(tmp_path), other),
    ):
        pass
    with claimed(str(tmp_path), SHAPE):
        pass


def test_only_one_job_has_it(tmp_path: Path) -> None:
    with claimed(str(tmp_path), SHAPE), pytest.raises(CheckpointError, match="in use by another"):  # noqa: SIM117
        with claimed(str(tmp_path), SHAPE):
            pass


def test_folders_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="not empty"), claimed(str(tmp_path), SHAPE):
        pass
    with (
        pytest.raises(CheckpointError, match="Not a directory"),
        claimed(str(tmp_path / "file" / "x"), SHAPE),
    ):
        pass
    (tmp_path / ABOUT).write_bytes(b"{")
    with pytest.raises(CheckpointError, match="is damaged"), claimed(str(tmp_path), SHAPE):
        pass


def test_another_file_system_is_left_to_spark() -> None:
    with claimed("hdfs://host/folder/", SHAPE) as spark:
        assert spark == "hdfs://host/folder/spark"
