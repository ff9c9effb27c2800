"""Runs the scripts in this folder. With PENSTOCK_REWRITE=1 their expected traces are written anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scripts.groups.world import World

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("*.script"))


def run(text: str) -> str:
    """The script with what its commands really print."""
    out: list[str] = []
    simulated = World()
    for block in text.strip("\n").split("\n\n"):
        head, separator, _ = block.partition("\n----")
        out.append(head)
        if not separator:
            continue
        printed: list[str] = []
        for command in head.splitlines():
            if not command.startswith("#"):
                printed += simulated.run(command)
        out[-1] = "\n".join([head, "----", *printed])
    return "\n\n".join(out) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    expected = path.read_text()
    actual = run(expected)
    if os.environ.get("PENSTOCK_REWRITE"):
        path.write_text(actual)
    else:
        assert actual == expected


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 10
