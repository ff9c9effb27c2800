"""Runs the scripts in this folder; see tests/scripts/runner.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.replication.world import World
from tests.scripts.runner import check, scripts_beside

SCRIPTS = scripts_beside(__file__)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    check(path, World())
    assert "VIOLATION" not in path.read_text()


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 15
