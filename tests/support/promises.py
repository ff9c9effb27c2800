"""The promises of `tests/promises.toml`, and `tests/README.md`, which is made of them.

    python -m tests.support.promises

writes tests/README.md. Tests are looked for in the source, with `ast`: nothing is imported or run.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROMISES = ROOT / "tests" / "promises.toml"
README = ROOT / "tests" / "README.md"
FIELDS = {"source", "promise", "tests", "not_yet"}
RINGS = """\
# Tests

<!-- Made by `python -m tests.support.promises` of tests/promises.toml: change that file or the generator. -->

| folder | ring | what is real |
|---|---|---|
| `unit` | unit; mirrors `src` | at most files, local sockets and a PostgreSQL |
| `scripts` | scripts: readable traces of quorum, replication, groups and transactions | the cores |
| `sim` | simulation: quorum, replication, transactions and retention under seeded faults | the cores |
| `compat` | compatibility: confluent-kafka, kafka-python, aiokafka, kcat, raw requests | broker and clients |
| `pipelines` | compatibility and faults of what runs on Spark | brokers and Spark |
| `browser` | the console | a gateway, brokers and Chromium |
| `e2e` | end to end and faults: commands, clusters, the docs, the wheel, hostile input | all processes |

`make test` runs all of them, after `make lint`; `make check` only `unit`, `scripts` and a short `sim`.
`make soak` runs the faults and simulations in their long form, `make flaky` anything again and again under
disturbance. A ring, a file or a test alone, once `make install` has been run:

    .venv/bin/pytest tests/sim
    .venv/bin/pytest tests/e2e/test_broker_crashes.py
    .venv/bin/pytest tests/e2e/test_broker_crashes.py -k kill_9

`PENSTOCK_COMPAT_BOOTSTRAP=host:port` runs `compat` against that broker, Apache Kafka for example. A
simulation that fails prints its seed and the command that repeats it.

## Promises

What the design promises, and the tests that show it. Paths begin at `tests`.
"""


@dataclass(frozen=True)
class Promise:
    source: str
    promise: str
    tests: tuple[str, ...] = ()
    not_yet: str = ""
    """The later work that it is left to, in place of tests."""


def read(text: str) -> list[Promise]:
    """ValueError names the promise that is not as it should be."""
    found = [parse(entry) for entry in tomllib.loads(text).get("promise", [])]
    words = [each.promise for each in found]
    repeated = sorted({each for each in words if words.count(each) > 1})
    if repeated:
        raise ValueError(f"promised twice: {repeated}")
    return found


def parse(entry: dict[str, Any]) -> Promise:
    promise = Promise(
        str(entry.get("source", "")),
        str(entry.get("promise", "")),
        tuple(entry.get("tests", ())),
        str(entry.get("not_yet", "")),
    )
    if unknown := sorted(entry.keys() - FIELDS):
        raise ValueError(f"{promise.promise!r}: unknown {unknown}")
    if not promise.source or not promise.promise:
        raise ValueError(f"{promise.promise!r}: a promise has words and a source")
    if bool(promise.tests) == bool(promise.not_yet):
        raise ValueError(f"{promise.promise!r}: either at least one test, or not yet")
    return promise


def missing_tests(promises: Iterable[Promise], root: Path = ROOT) -> list[str]:
    """Tests that are named, and are not there."""
    names = dict.fromkeys(name for promise in promises for name in promise.tests)
    return [name for name in names if not is_there(name, root)]


def is_there(name: str, root: Path) -> bool:
    path, _, test = name.partition("::")
    file = root / path
    return file.name.startswith("test_") and file.is_file() and test in names_in(file)


@functools.cache
def names_in(file: Path) -> frozenset[str]:
    """As pytest calls them: functions, classes, and their methods as `Class::method`.

    Hypothesis' state machines become classes by an assignment, `TestLog = LogMachine.TestCase`.
    """
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="TestCase")):
                found |= {name} if name.startswith("Test") else set()
            case ast.ClassDef(name=name, body=body) if name.startswith("Test"):
                methods = {f"{name}::{each.name}" for each in body if isinstance(each, ast.FunctionDef)}
                found |= {name, *(method for method in methods if "::test" in method)}
    return frozenset(found)


def readme(promises: Sequence[Promise]) -> str:
    lines = [RINGS]
    for source, group in groupby(promises, lambda promise: promise.source):
        lines += [f"### {source[0].upper()}{source[1:]}", "", "| promise | tests |", "|---|---|"]
        lines += [f"| {cell(promise.promise)} | {shown_by(promise)} |" for promise in group]
        lines.append("")
    return "\n".join(lines)


def shown_by(promise: Promise) -> str:
    if promise.not_yet:
        return f"not yet: {cell(promise.not_yet)}"
    return "<br>".join(f"`{name.removeprefix('tests/')}`" for name in promise.tests)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    README.write_text(readme(read(PROMISES.read_text(encoding="utf-8"))), encoding="utf-8")
