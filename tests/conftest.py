"""Fixtures for all rings: real brokers."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.support import costs, parts
from tests.support.broker import BrokerProcess
from tests.support.examples import EXAMPLES
from tests.support.java import ARCHIVE_OPTIONS, QUICK_START

# A busy machine is not a failure: how long an example takes is for benchmarks.
settings.register_profile(
    "penstock", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("penstock")

# A shell that runs us in the background has us ignore SIGINT, and so would children that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# For whatever starts Spark, also the commands of the docs.
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_START)
if not ARCHIVE_OPTIONS:
    os.environ["PENSTOCK_SPARK_ARCHIVE"] = "off"  # nothing is to be made behind the back of tests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from xdist.remote import Producer

    from tests.support.postgres import PostgresProcess


Named = TypeVar("Named")
QUICK_RINGS = ("sim", "unit", "scripts")
LONG_RINGS = ("browser", "e2e", "compat")
FOLDERS = ("tests/browser", "tests/pipelines/shared_session")
"""Whose files share something that is expensive to start: a browser, a Spark session."""


def together(nodeid: str) -> str:
    """What runs in one process, without anything in between: a file, or a folder."""
    return next((folder for folder in FOLDERS if nodeid.startswith(folder)), nodeid.partition("::")[0])


def ring_of(nodeid: str) -> str:
    return nodeid.split("/")[1]


class Scheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.collectonly:  # `make test` lists all tests while the programs are being installed
        config.stash[LEFT_OUT] = parts.left_out(items)
    if "PENSTOCK_SHUFFLE" in os.environ:
        shuffle(items, int(os.environ["PENSTOCK_SHUFFLE"]))
    else:
        arrange(items)


def shuffle(items: list[pytest.Item], seed: int) -> None:
    """Files in another order, and the tests of each. Every process of a run does the same.

    What runs together stays together, and so do the tests of one file: they may share what it sets up.
    """
    rng = random.Random(seed)
    groups: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        files = groups.setdefault(together(item.nodeid), {})
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    items.clear()
    for _, files in shuffled(rng, groups):
        for _, tests in shuffled(rng, files):
            rng.shuffle(tests)
            items += tests


def shuffled(rng: random.Random, named: dict[str, Named]) -> list[tuple[str, Named]]:
    entries = list(named.items())
    rng.shuffle(entries)
    return entries


def arrange(items: list[pytest.Item]) -> None:
    """First what needs nothing but Python, then the rest, with the files that start Spark spread in it.

    Spark wants all cores and the others mostly wait: side by side they fill the machine, where Spark beside
    Spark starves and waiting beside waiting idles. Simulations are the longest of the quick files: begun
    first, they leave short ones that keep all processes busy up to the end of `make check`.
    """
    lanes: dict[str, dict[str, None]] = {}
    for item in items:
        ring = ring_of(item.nodeid)
        lane = "long" if ring in LONG_RINGS else ring
        if item.get_closest_marker("spark"):
            lane = "spark"
        lanes.setdefault(lane, {})[together(item.nodeid)] = None
    order: dict[str, float] = {}
    for lane, files in lanes.items():
        if lane in QUICK_RINGS:
            order |= dict.fromkeys(files, QUICK_RINGS.index(lane) - len(QUICK_RINGS))
        else:
            order |= {file: place / len(files) for place, file in enumerate(files)}
    items.sort(key=lambda item: order[together(item.nodeid)])


COSTS = pytest.StashKey[costs.Recorder]()
PARTS = pytest.StashKey[list[dict[str, Any]]]()
LEFT_OUT = pytest.StashKey[Counter[str]]()
BEGAN = time.monotonic()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PARTS] = []
    config.stash[LEFT_OUT] = Counter()
    if config.getoption("numprocesses", None) is None or "PYTEST_XDIST_WORKER" in os.environ:
        config.stash[COSTS] = costs.Recorder()
        config.stash[COSTS].start()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        session.config.pluginmanager.register(FirstFailures(terminal, session))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    if COSTS in item.config.stash:
        item.config.stash[COSTS].enter(item.nodeid.partition("::")[0])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if COSTS in session.config.stash:
        recorder = session.config.stash[COSTS]
        recorder.stop()
        files = {name: cost.to_json() for name, cost in recorder.files.items()}
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["costs"] = files
            session.config.workeroutput["left_out"] = dict(session.config.stash[LEFT_OUT])
        else:
            session.config.stash[PARTS].append(files)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {})
    node.config.stash[PARTS].append(told.get("costs", {}))
    node.config.stash[LEFT_OUT] = Counter(told.get("left_out", {}))  # each has seen all tests


class FirstFailures:
    """Failures on the terminal when they happen, and not when everything else has ended, too.

    After one among the quick rings the others are not begun.
    """

    def __init__(self, terminal: pytest.TerminalReporter, session: pytest.Session) -> None:
        self._terminal = terminal
        self._runner: Any = terminal.config.pluginmanager.get_plugin("dsession") or session
        self._is_ordered = "PENSTOCK_SHUFFLE" not in os.environ
        self._has_failed = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._has_failed and ring_of(nodeid) not in QUICK_RINGS:
            self._runner.shouldstop = "a quick test has failed"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._has_failed |= self._is_ordered and ring_of(report.nodeid) in QUICK_RINGS
            self._terminal.write_line("")
            self._terminal.section(f"{report.nodeid} ({report.when})", red=True)
            self._terminal.write_line(report.longreprtext)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    files = costs.merged(config.stash[PARTS])
    costs.write(files, time.monotonic() - BEGAN)
    terminalreporter.section("what took longest, and what it waited for")
    costs.say(files, terminalreporter.write_line)
    for line in parts.lines(config.stash[LEFT_OUT]):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of this test alone: it may be killed, restarted and filled."""
    folder = tmp_path / "broker"
    folder.mkdir()
    with BrokerProcess(folder) as process:
        yield process


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that only use topics and groups of their own."""
    with BrokerProcess(tmp_path_factory.mktemp("shared-broker")) as process:
        yield process


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Of `shared_broker`, or with PENSTOCK_COMPAT_BOOTSTRAP of whatever cluster that names."""
    given = os.environ.get("PENSTOCK_COMPAT_BOOTSTRAP")
    return given or str(request.getfixturevalue("shared_broker").bootstrap)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresProcess]:
    """One PostgreSQL for all tests that leave it running."""
    from tests.support.postgres import PostgresProcess  # most tests have no need of its driver

    server = PostgresProcess.create()
    yield server
    server.remove()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name for a topic that no other test uses."""
    name = f"{request.node.path.stem.removeprefix('test_')}-{request.node.name}"
    letters = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
    return letters[:200]
