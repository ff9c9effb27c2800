"""Options of `penstock traffic simulate` that are wrong are said to be wrong before anything is written."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
import typer

from penstock.cli.app import run
from penstock.cli.traffic import parse_quadrants, progress_line, stopped_by_signals, summary, write_truth
from penstock.traffic.grid import DEFAULT_GRID, Quadrant
from penstock.traffic.simulator.run import Progress, Stop
from penstock.traffic.simulator.truth import Truth

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "options",
    [
        ["--cars", "0"],
        ["--cars", "-5"],
        ["--cars", "many"],
        ["--cars", "1000001"],
        ["--rate", "0"],
        ["--rate", "-1"],
        ["--rate", "nan"],
        ["--rate", "inf"],
        ["--rate", "20.5"],
        ["--seconds", "0"],
        ["--seconds", "nan"],
        ["--seed", "x"],
        ["--duplicates", "1.1"],
        ["--late", "-0.1"],
        ["--broken", "nan"],
        ["--quadrants", ""],
        ["--quadrants", "r0"],
        ["--quadrants", "r0.c0,"],
        ["--quadrants", "r-1.c0"],
        ["--day", "1"],
        ["--day", "nan"],
        ["--truth", "no/such/folder/truth.json"],
        ["--truth", "."],
        ["--no-such-option"],
    ],
)
def test_wrong_options_are_wrong_usage(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["traffic", "simulate", *options]) == 2
    assert options[0] in capsys.readouterr().err


def test_quadrants_by_name() -> None:
    assert parse_quadrants("r0.c1, traffic.r12.c0") == (Quadrant(0, 1), Quadrant(12, 0))
    with pytest.raises(typer.BadParameter, match="'r1' is not of the form"):
        parse_quadrants("r0.c0,r1")


def test_progress_in_a_line() -> None:
    going = Progress(
        seconds=3.0, sent=60_000, per_second=19_999.6, clock="07:30", behind=False, left_out_s=0.0
    )
    assert progress_line(going) == "sent 60000 (20000 per second)"
    late = Progress(seconds=3.0, sent=10, per_second=3.2, clock="07:30", behind=True, left_out_s=1.24)
    assert progress_line(late) == "sent 10 (3 per second), behind, 1.2 s left out"


def test_the_summary_says_what_is_not_known() -> None:
    truth = Truth(DEFAULT_GRID)
    truth.good, truth.late = 7, 1
    assert summary(truth, 0.0) == "sent 8: 7 good, 0 duplicates, 1 late, 0 broken"
    truth.unknown = 3
    assert summary(truth, 2.5).endswith("0 broken; 3 more may be written or not; 2.5 s left out")


def test_the_truth_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    path.write_text("old")
    write_truth(str(path), Truth(DEFAULT_GRID))
    assert path.read_text().startswith('{"sent": 0,')
    assert os.listdir(tmp_path) == ["truth.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_ask_for_the_end(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    stop = Stop()
    with stopped_by_signals(stop):
        signal.raise_signal(number)
        assert stop.asked
    assert signal.getsignal(number) is before
