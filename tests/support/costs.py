"""What the suite costs: wall and processor time by file and by kind of process, and what was waited for.

A thread of each test process looks around every half second. Processor time of the test process and of all
its descendants goes to the file whose test runs at that moment. So does the place where the test itself
stands: in `wait_until` the condition it waits for, elsewhere the innermost function of `tests/`.

Everything is written to `build/test-costs.json`, and the slowest files are printed at the end of a run.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.processes import Family, command_of, name_of
from tests.support.wait import waited_for

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
TESTS = str(ROOT / "tests") + os.sep
FRAME = re.compile(rf'  File "{re.escape(TESTS)}([^"]+)", line (\d+) in (.+)')
"""As faulthandler writes it."""
REPORT = ROOT / "build" / "test-costs.json"
LOOK_SECONDS = 0.5
SLOWEST = 10
WAITS_SHOWN = 3
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
TEST = "tests"
FORK_SERVER = "tests.support.fork_server"
KINDS = {
    "chrom": "chromium",
    "playwright": "playwright",
    "java": "java",
    "pyspark": "spark's python",
    "penstock.spark.worker_daemon": "spark's python",
    "postgres": "postgresql",
    "kcat": "kcat",
}
"""By what occurs in the name of the program, or in the module that Python runs."""


@dataclass
class FileCost:
    wall_s: float = 0.0
    cpu_s: Counter[str] = field(default_factory=Counter)
    waited_s: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        def in_order(seconds: Counter[str]) -> dict[str, float]:
            return {name: round(value, 2) for name, value in seconds.most_common() if value >= 0.01}

        return {
            "wall_s": round(self.wall_s, 2),
            "cpu_s": in_order(self.cpu_s),
            "waited_s": in_order(self.waited_s),
        }


def kind_of(command: list[str]) -> str:
    """What a process is for the report: `penstock broker`, `java`, `chromium`."""
    if not command:
        return "ended"
    program = os.path.basename(command[0]).lower()
    module = command[2] if program.startswith("python") and command[1:2] == ["-m"] else ""
    for part, kind in KINDS.items():
        if part in program or part in module:
            return kind
    words = [os.path.basename(word) for word in command]
    for at, word in enumerate(words[:4]):
        if word == "penstock" or word.startswith("penstock."):
            options_from = at + 1
            told = [part for part in words[options_from : options_from + 1] if not part.startswith("-")]
            return " ".join([word, *told])
    return program if not program.startswith("python") else f"python {' '.join(words[1:3])[:40]}"


def place_of(thread: int) -> str:
    """Where a thread stands: the condition of `wait_until`, or the innermost function of `tests/`.

    The frames of another thread must not be walked in Python: they end, and their memory is used again, while
    one looks at them. faulthandler looks without letting that thread go on.
    """
    for waiting, what in reversed(waited_for):
        if waiting == thread:
            return what
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        told = file.read().decode(errors="replace")
    _, _, ours = told.partition(f"hread {thread:#018x} ")
    for line in ours.partition("\n\n")[0].splitlines():
        if found := FRAME.match(line):
            return f"{os.path.basename(found[1])}:{found[2]} {found[3]}"
    return "pytest itself"


class Recorder:
    """Costs of the tests that this process runs."""

    def __init__(self) -> None:
        self.files: dict[str, FileCost] = {}
        self._file: str | None = None
        self._main = threading.main_thread().ident
        self._family = Family(os.getpid())
        self._ticks: dict[int, int] = {}
        self._kinds: dict[int, str] = {}
        self._own_s = time.process_time()
        self._looked = time.monotonic()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._look_around, name="costs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def enter(self, file: str) -> None:
        """From here on tests of this file run."""
        if file != self._file:
            self._look()
            self._file = file

    def _look_around(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        with self._lock:
            cost = self.files.setdefault(self._file or "collection", FileCost())
            now, own_s = time.monotonic(), time.process_time()
            passed_s, self._looked = now - self._looked, now
            cost.wall_s += passed_s
            cost.cpu_s[TEST] += own_s - self._own_s
            self._own_s = own_s
            if self._main is not None and threading.get_ident() != self._main:
                cost.waited_s[place_of(self._main)] += passed_s
            alive = self._family.ticks()
            for pid, ticks in alive.items():
                cost.cpu_s[self._kind(pid)] += (ticks - self._ticks.get(pid, 0)) / TICKS_PER_SECOND
                self._ticks[pid] = ticks
            for pid in self._ticks.keys() - alive.keys():
                del self._ticks[pid]
                self._kinds.pop(pid, None)

    def _kind(self, pid: int) -> str:
        """Asked until the process is what it was started for: before exec it looks like its parent."""
        kind = self._kinds.get(pid)
        if kind is None:
            command = command_of(pid)
            # A forked process has the command line of the one that it was forked from, and a name of its own.
            name = name_of(pid) if FORK_SERVER in command else ""
            if name:
                kind = "fork servers" if name.startswith("python") else f"penstock {name}"
            else:
                kind = kind_of(command)
            if pid in self._ticks:
                self._kinds[pid] = kind
        return kind


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Costs of several test processes, by file, the slowest first."""
    files: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, cost in part.items():
            known = files.setdefault(name, {"wall_s": 0.0, "cpu_s": Counter(), "waited_s": Counter()})
            known["wall_s"] = round(known["wall_s"] + cost["wall_s"], 2)
            known["cpu_s"].update(cost["cpu_s"])
            known["waited_s"].update(cost["waited_s"])
    return dict(sorted(files.items(), key=lambda item: -item[1]["wall_s"]))


def by_kind(files: dict[str, Any]) -> Counter[str]:
    total: Counter[str] = Counter()
    for cost in files.values():
        total.update(cost["cpu_s"])
    return total


def write(files: dict[str, Any], wall_s: float) -> None:
    REPORT.parent.mkdir(exist_ok=True)
    kinds = {name: round(value, 1) for name, value in by_kind(files).most_common()}
    report = {"wall_s": round(wall_s, 1), "cpu_s": kinds, "files": files}
    REPORT.write_text(json.dumps(report, indent=1) + "\n")


def say(files: dict[str, Any], line: Callable[[str], object]) -> None:
    """The slowest files and what they waited for."""
    for name, cost in list(files.items())[:SLOWEST]:
        cpu_s = sum(cost["cpu_s"].values())
        line(f"{cost['wall_s']:7.1f} s, {cpu_s:6.1f} s of processor time  {name}")
        for place, seconds in cost["waited_s"].most_common(WAITS_SHOWN):
            line(f"          {seconds:7.1f} s  {place}")
    kinds = by_kind(files)
    line(f"processor time {sum(kinds.values()):.0f} s: " + ", ".join(
        f"{name} {seconds:.0f}" for name, seconds in kinds.most_common() if seconds >= 1
    ))  # fmt: skip
    line(f"all of it: {REPORT.relative_to(ROOT)}")
