"""Rows, and how they are shown: a Rich table on the terminal, Markdown in the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from bench.stats import Mark, Target, median, paired_ratio

HEADINGS = ("what", "against", "Penstock", "peer", "ratio", "bar", "aim", "result")


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    against: str
    ours: str
    theirs: str
    ratio: float | None
    target: Target | None
    mark: Mark
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        bar = self.target.text(self.target.bar) if self.target else "–"
        aim = self.target.text(self.target.aim) if self.target else "–"
        ratio = "–" if self.ratio is None else f"{self.ratio:.3g}×"
        result = self.mark.value + (f" ({self.note})" if self.note else "")
        return (self.what, self.against, self.ours, self.theirs, ratio, bar, aim, result)


def compared(
    what: str,
    against: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    unit: str,
    target: Target | None,
    *,
    note: str = "",
) -> Row:
    ratio = paired_ratio(ours, theirs)
    if len(ours) == 1:
        note = f"{note}, one round" if note else "one round"
    mark = target.judge(ratio) if target else Mark.REPORTED
    return Row(what, against, show(median(ours), unit), show(median(theirs), unit), ratio, target, mark, note)


def unavailable(what: str, against: str, target: Target | None, reason: str) -> Row:
    return Row(what, against, "–", "–", None, target, Mark.UNAVAILABLE, reason)


def failed(what: str, reason: str) -> Row:
    return Row(what, "–", "–", "–", None, None, Mark.FAILED, reason)


def left_out(what: str) -> Row:
    return Row(what, "–", "–", "–", None, None, Mark.LEFT_OUT)


def reported(what: str, figure: str, *, note: str = "") -> Row:
    return Row(what, "itself", figure, "–", None, None, Mark.REPORTED, note)


def show(value: float, unit: str) -> str:
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits} {unit}"


def rich_table(rows: Sequence[Row]) -> Table:
    colors = {Mark.AIM: "green", Mark.BAR: "cyan", Mark.BELOW: "red", Mark.FAILED: "bold red"}
    table = Table(*HEADINGS)
    for row in rows:
        table.add_row(*row.cells(), style=colors.get(row.mark, ""))
    return table


def markdown(rows: Sequence[Row], facts: Mapping[str, str], notes: str) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; every ratio is Penstock divided by the peer, within this run.",
        "",
    ]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", _line(HEADINGS), _line(["---"] * len(HEADINGS))]
    lines += [_line(row.cells()) for row in rows]
    lines += ["", "## How it was measured", "", notes]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
