"""What commands print: one line for a failure, aligned columns for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

Cell = str | int | None

STDOUT = 1


class CommandFailed(Exception):  # noqa: N818 - it is the outcome of a command, not an error in it
    """An expected failure; its message is the one line the user sees."""

    exit_code = 1


class WrongUsage(CommandFailed):
    """The command cannot be meant like that."""

    exit_code = 2


def discard_output() -> None:
    """Nobody takes it any more. The interpreter must not find that out again when it flushes at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)


def errors_on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def confirm(question: str, *, yes: bool, json: bool) -> None:
    """Ask before something is done; who says no ends the command."""
    if yes:
        return
    if json:
        raise CommandFailed("--json needs --yes: nobody would see the question")
    typer.confirm(question, abort=True)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))


def columns(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Lines of a table: text to the left, numbers to the right, `-` for what is not there."""
    numeric = [bool(rows) and all(isinstance(row[i], int | None) for row in rows) for i in range(len(header))]
    texts = [list(header), *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in texts) for i in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in texts
    ]


def print_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    for line in columns(header, rows):
        print(line)


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
