"""Scripts: commands, `----`, and what they print. With PENSTOCK_REWRITE=1 the latter is written anew.

A world is what a script talks to. What all worlds need to read their commands is here, too.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple, Protocol

from penstock.types import TopicPartition

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class World(Protocol):
    def run(self, command: str) -> list[str]: ...


class Command(NamedTuple):
    """`name word… key=value…`"""

    name: str
    words: list[str]
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Command:
        name, *rest = text.split()
        words = [word for word in rest if "=" not in word]
        return cls(name, words, dict(word.split("=", 1) for word in rest if "=" in word))

    @property
    def ids(self) -> list[int]:
        """Those of its words that are numbers."""
        return [int(word) for word in self.words if word.isdigit()]

    @property
    def method(self) -> str:
        return "do_" + self.name.replace("-", "_")


def scripts_beside(file: str) -> list[Path]:
    return sorted(Path(file).parent.glob("*.script"))


def duration_ms(text: str) -> int:
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    assert found is not None, f"{text} is no duration"
    return int(found[1]) * UNITS_MS[found[2]]


def partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


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
