from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.cli.private import is_open, keep_private, warn_of_password


@pytest.fixture(autouse=True)
def _umask() -> object:
    before = os.umask(0o022)
    yield None
    os.umask(before)


@pytest.mark.parametrize(("content", "mode"), [(None, 0o700), ("meta.json", 0o700), ("thesis.tex", 0o755)])
def test_a_data_folder_is_closed_and_any_other_left_alone(
    tmp_path: Path, content: str | None, mode: int
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    if content is not None:
        (folder / content).touch()
    keep_private(folder)
    assert folder.stat().st_mode & 0o777 == mode
    (folder / "new").touch()
    assert (folder / "new").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_not_there_is_made_later(tmp_path: Path) -> None:
    keep_private(tmp_path / "data")
    assert not is_open(tmp_path / "data")


@pytest.mark.parametrize(
    ("storage", "is_told"),
    [
        ("postgresql://me:secret@host/database", True),
        ("postgresql://host/database?user=me&password=secret", True),
        ("postgresql://me@host:5432/database", False),
        ("file", False),
    ],
)
def test_a_password_on_the_command_line_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], storage: str, is_told: bool
) -> None:
    monkeypatch.setattr(sys, "argv", ["penstock", "up", "--storage", storage])
    warn_of_password()
    told = capsys.readouterr().err
    assert ("PENSTOCK_STORAGE" in told) == is_told
    assert "secret" not in told
