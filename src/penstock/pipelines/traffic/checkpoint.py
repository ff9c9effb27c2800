"""The folder that a heat map job goes on from: Spark's checkpoint, and what it was made for.

    heatmap.json    the map and the window; locked as long as a job uses the folder
    spark/          Spark's own

Cells of one map mean nothing on another one, so a folder is for one map and one window. On a file system that
is not a local one there is no `heatmap.json`; the state itself then says what it was counted with.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import orjson

from penstock.client.errors import InvalidMessageError
from penstock.pipelines.claim import FolderError, claimed
from penstock.pipelines.traffic.tally import Shape
from penstock.traffic.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Iterator

ABOUT: Final = "heatmap.json"
SPARK: Final = "spark"


@contextmanager
def claimed_checkpoint(folder: str, shape: Shape) -> Iterator[str]:
    """Where Spark's checkpoint is. Only one process at a time has a folder."""
    path = _local(folder)
    if path is None:
        yield f"{folder.rstrip('/')}/{SPARK}"
        return
    with claimed(
        path, ABOUT, _described(shape), kind="checkpoint of a heat map", owner="heat map job"
    ) as found:
        if (made_for := _shape(folder, found)) != shape:
            raise FolderError(
                f"{folder} is a checkpoint for {made_for}, and not for {shape}; use another folder"
            )
        yield str(path / SPARK)


def _local(folder: str) -> Path | None:
    parts = urlsplit(folder)
    if parts.scheme in ("", "file"):
        return Path(parts.path if parts.scheme else folder)
    return None


def _described(shape: Shape) -> bytes:
    return orjson.dumps({"window_ms": shape.window_ms, "grid": shape.grid.as_dict()})


def _shape(folder: str, found: bytes) -> Shape:
    try:
        about = orjson.loads(found)
        return Shape(about["window_ms"], Grid.from_json(orjson.dumps(about["grid"])))
    except (orjson.JSONDecodeError, KeyError, TypeError, InvalidMessageError) as error:
        raise FolderError(f"{folder}/{ABOUT} is damaged: {error}") from error
