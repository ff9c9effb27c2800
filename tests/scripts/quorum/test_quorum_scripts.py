"""Runs the scripts in this folder; see tests/scripts/runner.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.quorum.world import World
from tests.scripts.runner import check, defects_beside, run, scripts_beside

SCRIPTS = scripts_beside(__file__)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    check(path, World())
    assert "VIOLATION" not in path.read_text()


@pytest.mark.parametrize("path", defects_beside(__file__), ids=lambda path: path.stem)
@pytest.mark.xfail(strict=True, reason="a defect of the core")
def test_defect(path: Path) -> None:
    assert "VIOLATION" not in run(path.read_text(), World())


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 15
