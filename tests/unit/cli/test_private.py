from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.cli import up
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


def test_a_node_closes_its_folder_and_warns_of_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node that is started by its file; `penstock up` says so as well, once it serves."""
    data, file = tmp_path / "data", tmp_path / "node.toml"
    data.mkdir()
    file.write_text(f'data = "{data}"\nlisteners = "127.0.0.1:0"\n')
    modes = list[int]()
    monkeypatch.setattr(up, "run", lambda *_, **__: modes.append(data.stat().st_mode & 0o777))
    up.broker(file)
    assert modes == [0o700]
    monkeypatch.setattr(sys, "argv", ["penstock", "up", "--storage", "postgresql://me:secret@host/database"])
    up.print_ready("127.0.0.1:9092", None)
    assert "PENSTOCK_STORAGE" in capsys.readouterr().err
