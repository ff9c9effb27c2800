"""Whether the heat map has counted what the cars sent: pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.demo.figures import Totals


@dataclass(frozen=True, slots=True)
class Truth:
    """What the simulator says that it sent; of `sent`, `good` are to be counted."""

    sent: int
    good: int
    unknown: int = 0
    """Written or not: their brokers did not answer in time. They are part of nothing else."""


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
            sent, good, unknown = int(told["sent"]), int(told["good"]), int(told.get("unknown", 0))
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        before = truth or Truth(0, 0)
        truth = Truth(before.sent + sent, before.good + good, before.unknown + unknown)
    return truth


def judge(truth: Truth | None, totals: Totals | None) -> Verdict:
    if totals is None:
        sent = "" if truth is None else f" of {truth.sent:,} positions"
        return Verdict(f"the heat map has counted none{sent}", False if truth and truth.sent else None)
    counted = f"counted {totals.counted:,}"
    if truth is None:
        return Verdict(
            f"{counted} positions; what the cars sent is not known: they ended before they could say it", None
        )
    aside = "".join(
        f", {count:,} {name}"
        for name, count in (
            ("late", totals.late), ("duplicate", totals.duplicate), ("malformed", totals.malformed),
        )
        if count
    )  # fmt: skip
    more = totals.sent - truth.sent
    if 0 < more <= truth.unknown:
        known = f"the cars know of {truth.sent:,}, and got no answer about {truth.unknown:,} more"
        return Verdict(f"{counted} positions{aside}; {known}", True)
    if more > 0:
        return Verdict(
            f"{counted} positions{aside}; the cars sent {truth.sent:,} of them, and others the rest", True
        )
    missing = f"{-more:,} missing" if more else "0 lost"
    of_cars = f"{counted} of {truth.good:,} positions{aside}, {missing}"
    return Verdict(of_cars, more == 0 and totals.counted <= truth.good)


def is_all_counted(truth: Truth, totals: Totals | None) -> bool:
    return totals is not None and totals.sent >= truth.sent
