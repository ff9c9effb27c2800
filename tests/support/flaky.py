"""Tests again and again under disturbance: `python -m tests.support.flaky --rounds 20 tests/unit`.

Each round has another order of files and tests, and in turn: nothing else, two processes beside it that
never rest, one core instead of all. At its end stands what failed and how often, with the commands that run
a round again. The list is empty, or something is wrong: with Penstock, or with a test.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
HOGS: Final = 2
HOG: Final = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
"""Ends with its parent, also when that is killed."""
REPORT: Final = ROOT / "build" / "flaky.txt"
DISTURBANCES: Final = ("nothing beside", "two hogs", "one core")


class Round(NamedTuple):
    seed: int
    disturbance: str
    seconds: float
    passed: int
    failed: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"seed {self.seed}, {self.disturbance}: {self.passed:,} passed, "
            f"{len(self.failed)} failed, {self.seconds:.0f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.flaky", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--processes", default="3", help="as pytest's -n")
    parser.add_argument("--seed", type=int, help="of the first round; the others have those that follow")
    parser.add_argument("tests", nargs="*", default=["tests"])
    given = parser.parse_args()
    first = random.randrange(1_000_000) if given.seed is None else given.seed
    rounds: list[Round] = []
    try:
        for number in range(given.rounds):
            rounds.append(run(first + number, given.tests, given.processes))
            print(f"round {number + 1} of {given.rounds}: {rounds[-1]}", flush=True)
            for name in rounds[-1].failed:
                print(f"  {name}", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    text = report(rounds, given.tests, given.processes)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(text)
    print(text, end="")
    sys.exit(len(rounds) < given.rounds or any(each.failed for each in rounds))


def run(seed: int, tests: list[str], processes: str) -> Round:
    disturbance = DISTURBANCES[seed % len(DISTURBANCES)]
    results = ROOT / "build" / f"flaky-{seed}.xml"
    results.parent.mkdir(exist_ok=True)
    results.unlink(missing_ok=True)
    began = time.monotonic()
    log = ROOT / "build" / f"flaky-{seed}.log"
    with hogs(HOGS if disturbance == "two hogs" else 0), log.open("w") as output:
        done = subprocess.run(
            command(tests, processes, results),
            cwd=ROOT,
            env=os.environ | {"PENSTOCK_SHUFFLE": str(seed)},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            preexec_fn=on_one_core if disturbance == "one core" else None,
        )
    passed, failed = outcomes(results)
    if done.returncode not in (0, 1) or (done.returncode and not failed):
        failed = (*failed, f"pytest itself ended with {done.returncode}: see {log}")
    return Round(seed, disturbance, time.monotonic() - began, passed, failed)


def command(tests: list[str], processes: str, results: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", "-n", processes, "--no-loadscope-reorder", "-q"),
        *(f"--junitxml={results}", *tests),
    ]


@contextmanager
def hogs(number: int) -> Iterator[None]:
    """So many processes that compute and never wait."""
    busy = [subprocess.Popen([sys.executable, "-c", HOG, str(os.getpid())]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def on_one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def outcomes(results: Path) -> tuple[int, tuple[str, ...]]:
    """How many tests passed, and the names of those that failed."""
    if not results.exists():
        return 0, ()
    passed, failed = 0, []
    for case in ElementTree.parse(results).iter("testcase"):
        if case.find("failure") is None and case.find("error") is None:
            passed += 1
        else:
            failed.append(f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}")
    return passed, tuple(failed)


def report(rounds: list[Round], tests: list[str], processes: str) -> str:
    times: dict[str, list[Round]] = defaultdict(list)
    for each in rounds:
        for name in each.failed:
            times[name].append(each)
    lines = [f"{len(rounds)} rounds of {' '.join(tests)}"]
    lines += [f"  {each}" for each in rounds]
    if not times:
        return "\n".join([*lines, "nothing failed", ""])
    for name, among in sorted(times.items(), key=lambda item: -len(item[1])):
        lines.append(f"failed in {len(among)} of {len(rounds)}: {name}")
        seeds = ", ".join(f"{each.seed} ({each.disturbance})" for each in among)
        lines.append(f"  seeds {seeds}")
    seed = next(iter(times.values()))[0].seed
    again = f"--rounds 1 --seed {seed} --processes {processes} {' '.join(tests)}"
    return "\n".join([*lines, f"again: python -m tests.support.flaky {again}", ""])


if __name__ == "__main__":
    main()
