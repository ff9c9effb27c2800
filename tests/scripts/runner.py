"""Scripts: commands, `----`, and what they print. With PENSTOCK_REWRITE=1 the latter is written anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class World(Protocol):
    def run(self, command: str) -> list[str]: ...


def run(text: str, world: World) -> str:
    """The script with what its commands really print."""
    out: list[str] = []
    for block in text.strip("\n").split("\n\n"):
        head, separator, _ = block.partition("\n----")
        out.append(head)
        if not separator:
            continue
        printed: list[str] = []
        for command in head.splitlines():
            if not command.startswith("#"):
                printed += world.run(command)
        out[-1] = "\n".join([head, "----", *printed])
    return "\n\n".join(out) + "\n"


def check(path: Path, world: World) -> None:
    expected = path.read_text()
    actual = run(expected, world)
    if os.environ.get("PENSTOCK_REWRITE"):
        path.write_text(actual)
    else:
        assert actual == expected
