"""The service's folder: one owner, files that are whole or not there, nothing left over."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from penstock.pipelines.claim import FolderError
from penstock.pipelines.flights.service.failures import is_lasting, is_passing
from penstock.pipelines.flights.service.folder import Folder, put_in_place, remove
from penstock.spark.errors import OptionError, SinkFencedError, SourceError


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "data"))
    with (
        folder.claimed(),
        pytest.raises(FolderError, match="in use by another"),
        Folder(str(folder.path)).claimed(),
    ):
        pass
    with folder.claimed():
        assert folder.raw.is_dir()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(FolderError, match="is not empty"), Folder(str(tmp_path)).claimed():
        pass


def test_what_nobody_needs_is_swept(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    with folder.claimed():
        kept, lost = folder.jobs / "a" / "kept.arrow", folder.jobs / "b" / "lost.arrow"
        for path in (kept, lost, folder.raw / "half.seg.aside", folder.results / "old" / "q1.csv"):
            path.parent.mkdir(exist_ok=True)
            path.touch()
        folder.sweep({str(kept)}, {"new"})
        assert folder.staged() == {str(kept)}
        assert [path.name for path in (*folder.jobs.iterdir(), *folder.results.iterdir())] == ["a"]
        remove([str(kept), str(kept)])
        assert folder.staged() == set()
        assert folder.raw.is_dir()


@pytest.mark.parametrize("lasting", [True, False])
def test_a_file_is_whole_or_not_there(tmp_path: Path, *, lasting: bool) -> None:
    path = tmp_path / "deep" / "file"
    with suppress(ZeroDivisionError), put_in_place(str(path), lasting=lasting) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert list(path.parent.iterdir()) == []
    with put_in_place(str(path), lasting=lasting) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"


def test_which_errors_pass() -> None:
    killed = RuntimeError(
        "Job aborted due to stage failure:\nCaused by: Python worker exited unexpectedly (crashed)"
    )
    of_a_task = RuntimeError("Traceback…\npenstock.spark.errors.SourceError: nothing came for 30 s\n at org…")
    assert all(map(is_passing, (SourceError("brokers are away"), killed, of_a_task)))
    assert not any(map(is_passing, (OptionError("x", "y"), SinkFencedError("z"), RuntimeError("what?"))))
    assert is_lasting(SinkFencedError("z"))
