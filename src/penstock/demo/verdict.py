"""Whether the heat map has counted what the cars sent, each position once: pure.

Three counts that know nothing of each other are compared:

    the cars' journal   what brokers have acknowledged to them
    the log             what is on the topics of the quadrants, read back by the demo itself
    the map             what the job says it has read and counted, and what the cells it published add up to

So a position that is lost, or is there twice, shows between the two counts where it happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.demo.figures import Totals


@dataclass(frozen=True, slots=True)
class Truth:
    """The cars' journal: what was acknowledged."""

    sent: int
    duplicates: int = 0
    """Of `sent`, those that they sent again on purpose."""
    unknown: int = 0
    """Written or not: their brokers did not answer in time. They are part of nothing else."""

    @property
    def positions(self) -> int:
        """Each once."""
        return self.sent - self.duplicates


@dataclass(frozen=True, slots=True)
class Log:
    """What the topics hold."""

    records: int
    """On the quadrants, whoever wrote them and whatever they are."""
    repeated: int = 0
    """Of `records`, positions whose car and time were there before."""
    cars: int = 0
    """Of `records`, those of the demo's own cars."""
    cars_repeated: int = 0
    """Of `cars`, those that are `repeated`."""

    @property
    def positions(self) -> int:
        """Each once."""
        return self.records - self.repeated

    @property
    def cars_positions(self) -> int:
        return self.cars - self.cars_repeated


@dataclass(frozen=True, slots=True)
class Cells:
    """What the topic of the heat map holds."""

    shown: int
    """The sum over all cells of all windows."""
    counted: int
    """By the job's totals beside them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    text: str
    holds: bool | None
    """None: it cannot be said."""


def read_truth(files: Iterable[str]) -> Truth | None:
    """The sum of all runs; None if one of them could not say what it had sent, or none was there."""
    truth = None
    for content in files:
        try:
            told = json.loads(content)
            sent, duplicates, unknown = (
                int(told["sent"]), int(told.get("duplicates", 0)), int(told.get("unknown", 0)),
            )  # fmt: skip
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        before = truth or Truth(0)
        truth = Truth(before.sent + sent, before.duplicates + duplicates, before.unknown + unknown)
    return truth


def judge(truth: Truth | None, log: Log | None, totals: Totals | None, cells: Cells | None = None) -> Verdict:
    """`log` is None if it could not be read as a whole, `cells` if some are not kept any more."""
    if totals is None:
        sent = "" if truth is None else f" of {truth.sent:,} positions"
        return Verdict(f"the heat map has counted none{sent}", False if truth and truth.sent else None)
    if log is None:
        return judge_without_log(truth, totals)
    lost = max(0, truth.positions - log.cars_positions) if truth else 0
    wrong = faults(truth, log, totals, cells)
    text = f"counted {totals.counted:,} of {log.positions + lost:,} positions{aside(totals)}"
    if wrong:
        numbers = [f"the cars sent {truth.sent:,}"] if truth else []
        numbers += [f"the log has {log.records:,}", f"the map read {totals.sent:,}"]
        return Verdict(f"{text}: {', '.join(wrong)} ({', '.join(numbers)})", False)
    if truth is None:
        return Verdict(f"{text}; what the cars sent is not known: they ended before they could say it", None)
    return Verdict(f"{text}, 0 lost, 0 twice{strangers(truth, log)}", True)


def faults(truth: Truth | None, log: Log, totals: Totals, cells: Cells | None) -> list[str]:
    """What went wrong, with its number, along the way of a position."""
    read_twice = totals.sent - log.records
    found = [
        (truth.positions - log.cars_positions if truth else 0, "lost before the log"),
        (log.cars_repeated - (truth.duplicates if truth else 0), "written twice"),
        (-read_twice, "not read by the map"),
        (read_twice, "read twice by the map"),
        (totals.counted - log.positions, "counted twice"),
        # Cars write nothing else than positions, and the map may put aside only what is on the log.
        (totals.malformed - (log.records - log.cars), "lost as malformed"),
        (totals.duplicate - log.repeated if read_twice <= 0 else 0, "lost as duplicates"),
    ]
    words = [f"{number:,} {what}" for number, what in found if number > 0]
    if cells is not None and cells.shown != cells.counted:
        words.append(f"{cells.shown:,} shown by the cells of the map for {cells.counted:,} counted")
    return words


def strangers(truth: Truth, log: Log) -> str:
    """Positions on the log of which the cars' journal does not know."""
    more = log.cars_positions - truth.positions
    unanswered = min(more, truth.unknown)
    words = [f"{unanswered:,} of them without an answer to the cars"] if unanswered > 0 else []
    others = log.records - log.cars + more - unanswered
    words += [f"{others:,} of them sent by others"] if others > 0 else []
    return "".join(f"; {each}" for each in words)


def judge_without_log(truth: Truth | None, totals: Totals) -> Verdict:
    counted = f"counted {totals.counted:,} positions{aside(totals)}"
    if truth is not None and totals.sent < truth.sent:
        return Verdict(f"{counted} of {truth.sent:,}: {truth.sent - totals.sent:,} lost", False)
    return Verdict(f"{counted}; the log could not be read, so nobody knows whether each is there once", None)


def aside(totals: Totals) -> str:
    kinds = ("late", totals.late), ("duplicate", totals.duplicate), ("malformed", totals.malformed)
    return "".join(f", {count:,} {name}" for name, count in kinds if count)
