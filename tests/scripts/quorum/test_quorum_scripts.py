"""Runs the scripts in this folder; see tests/scripts/runner.py.

In `defects` are scripts that end in a VIOLATION of what must always hold: the core is wrong. When it is
mended, the script moves up, with the trace that it has then.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.quorum.world import World
from tests.scripts.runner import check, run, scripts_beside

SCRIPTS = scripts_beside(__file__)
DEFECTS = sorted((Path(__file__).parent / "defects").glob("*.script"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    check(path, World())
    assert "VIOLATION" not in path.read_text()


@pytest.mark.parametrize("path", DEFECTS, ids=lambda path: path.stem)
@pytest.mark.xfail(strict=True, reason="a defect of the core")
def test_defect(path: Path) -> None:
    assert "VIOLATION" not in run(path.read_text(), World())


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 15
