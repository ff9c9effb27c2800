"""`make flaky`: what it counts and prints, and that nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import shuffle, together
from tests.support import flaky, processes
from tests.support.flaky import Round
from tests.support.wait import wait_until

A, B = "tests/unit/test_a.py::test_a", "tests/unit/test_b.py::test_b"


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """What it exits with."""
    monkeypatch.setattr(sys, "argv", ["flaky", *arguments])
    with pytest.raises(SystemExit) as ended:
        flaky.main()
    return ended.value.code


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(flaky, "REPORT", tmp_path / "build" / "flaky.txt")
    return flaky.REPORT


def test_failures_are_counted_by_test_with_the_seeds_that_show_them_again(
    report: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = {100: (A,), 101: (), 102: (B, A)}
    monkeypatch.setattr(flaky, "run", lambda seed, *_: Round(seed, "one core", 1.0, 5, failures[seed]))
    assert invoke(monkeypatch, "--rounds", "3", "--seed", "100", "tests/unit") == 1
    text = report.read_text()
    assert f"failed in 2 of 3: {A}\n  seeds 100 (one core), 102 (one core)\n" in text
    assert f"failed in 1 of 3: {B}\n  seeds 102 (one core)\n" in text
    assert text.index(A) < text.index(B), "what fails most often comes first"
    assert "again: python -m tests.support.flaky --rounds 1 --seed 100 --processes 3 tests/unit\n" in text
    printed = capsys.readouterr().out
    assert "round 2 of 3: seed 101, one core: 5 passed, 0 failed" in printed
    assert printed.endswith(text)


def test_rounds_in_which_nothing_failed(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def run(seed: int, *_: object) -> Round:
        seeds.append(seed)
        return Round(seed, "nothing beside", 1.0, 5, ())

    monkeypatch.setattr(flaky, "run", run)
    assert invoke(monkeypatch, "--rounds", "2") == 0
    assert seeds == [seeds[0], seeds[0] + 1], "each round has an order of its own"
    assert report.read_text().endswith("nothing failed\n")


def test_an_interrupted_run_tells_of_the_rounds_before(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(seed: int, *_: object) -> Round:
        if seed == 8:
            raise KeyboardInterrupt
        return Round(seed, "one core", 1.0, 5, ())

    monkeypatch.setattr(flaky, "run", run)
    assert invoke(monkeypatch, "--rounds", "20", "--seed", "7") == 1, "that is no success"
    assert "1 rounds of tests\n  seed 7, one core: 5 passed" in report.read_text()


RESULTS = """<testsuites><testsuite>
<testcase classname="tests.unit.test_c" name="test_c[1]"/>
<testcase classname="tests.unit.test_a" name="test_a"><failure/></testcase>
<testcase classname="tests.unit.test_b" name="test_b"><error/></testcase>
</testsuite></testsuites>"""
PYTEST = """
import os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(sys.argv[2])
print("seed", os.environ["PENSTOCK_SHUFFLE"], "cores", len(os.sched_getaffinity(0)))
sys.exit(int(sys.argv[3]))
"""


@pytest.fixture
def play_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(flaky, "ROOT", tmp_path)
    return monkeypatch


def ends_with(monkeypatch: pytest.MonkeyPatch, results: str, code: int) -> None:
    def command(_tests: list[str], _processes: str, file: Path) -> list[str]:
        return [sys.executable, "-c", PYTEST, str(file), results, str(code)]

    monkeypatch.setattr(flaky, "command", command)


def test_a_round_is_what_pytest_tells_of_it(play_pytest: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends_with(play_pytest, RESULTS, 1)
    one_core = flaky.run(seed=5, tests=[], processes="3")
    assert (one_core.seed, one_core.disturbance, one_core.passed) == (5, "one core", 1)
    assert one_core.failed == (A, B)
    assert (tmp_path / "build" / "flaky-5.log").read_text() == "seed 5 cores 1\n"


def test_a_pytest_that_cannot_run_is_no_success(play_pytest: pytest.MonkeyPatch) -> None:
    ends_with(play_pytest, "<testsuites/>", 4)
    (failed,) = flaky.run(seed=3, tests=[], processes="3").failed
    assert failed.startswith("pytest itself ended with 4: see ")


def test_no_hog_outlives_an_interrupt() -> None:
    def run() -> None:
        with flaky.hogs(2):
            started.extend(set(processes.children()[os.getpid()]) - before)
            raise KeyboardInterrupt

    before = set(processes.children()[os.getpid()])
    started: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        run()
    assert len(started) == 2
    assert not set(started) & set(processes.children()[os.getpid()])


def test_no_hog_outlives_who_started_it() -> None:
    code = "from tests.support import flaky\nwith flaky.hogs(1): print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], cwd=flaky.ROOT, **pipes) as run:
        assert run.stdout is not None
        run.stdout.readline()
        (hog,) = processes.children()[run.pid]
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: (processes.stat_fields(hog) or ["Z"])[0] == "Z", "the hog ends")


class Item(NamedTuple):
    nodeid: str


def test_another_order_leaves_together_what_shares_something() -> None:
    """A file its fixtures, a folder its browser."""
    files = ["tests/unit/a.py", "tests/unit/b.py", "tests/browser/c.py", "tests/browser/d.py"]
    items: list[Any] = [Item(f"{file}::test_{number}") for file in files for number in range(6)]
    before = list(items)
    shuffle(items, 7)
    assert items != before
    assert sorted(items) == sorted(before)
    in_order = [item.nodeid.partition("::")[0] for item in items]
    assert len([file for file, _ in groupby(in_order)]) == len(files)
    assert len([place for place, _ in groupby(map(together, in_order))]) == 3
    again = list(before)
    shuffle(again, 7)
    assert again == items
