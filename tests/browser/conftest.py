"""The console in a real browser, before a real cluster.

One browser for all files that a test process runs, and one more for those with a map; a fresh page for each
test. Files whose tests leave brokers alone, and look only at what is theirs, share one broker with a gateway.
The others have a cluster of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error as PlaywrightError

from penstock.gateway.console.built import FOLDER, INDEX
from tests.support.browser import READ_BACK, Chromium, Console
from tests.support.supervised import SupervisedCluster

OPENED = pytest.StashKey[list[Console]]()
OpenConsole = Callable[..., Console]


# Not for the whole run: Playwright has an event loop of its own in this thread, and others want theirs. The
# files of this folder follow each other in one process, so it is one browser all the same.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    assert (FOLDER / INDEX).exists(), "the console is not built: make console"
    with Chromium() as started:
        yield started


@pytest.fixture(scope="package")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    """One broker, and a supervisor that starts the gateway again when a test has killed it."""
    folder = tmp_path_factory.mktemp("shared-cluster")
    with SupervisedCluster(folder, "--flush", "os", brokers=1, controllers=1, with_gateway=True) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    """Three brokers of this file alone."""
    folder = tmp_path_factory.mktemp("cluster")
    with SupervisedCluster(folder, "--flush", "os", brokers=3, with_gateway=True) as running:
        yield running


@pytest.fixture
def has_map() -> bool:
    """Whether the tests of a file are about the map, and need the browser that can draw it."""
    return False


@pytest.fixture
def open_console(
    request: pytest.FixtureRequest, chromium: Chromium, has_map: bool, tmp_path: Path
) -> Iterator[OpenConsole]:
    """A function of an address and of Playwright's options for a context. Evidence goes to `tmp_path`."""
    opened: list[Console] = []
    request.node.stash[OPENED] = opened

    def open_one(address: str, **options: Any) -> Console:
        options = {"with_webgl": has_map} | options
        console = Console(chromium.new_context(**options), address)
        if options["with_webgl"]:
            console.watch.announce(READ_BACK)
        opened.append(console)
        return console

    yield open_one
    problems = [problem for console in opened for problem in console.watch.problems()]
    for console in opened:
        console.close()
    assert not problems, "unannounced, in the browser:\n" + "\n".join(problems)


@pytest.fixture
def console(open_console: OpenConsole, cluster: SupervisedCluster) -> Console:
    """A page of its own before the cluster of the file; `console.open(…)` goes somewhere."""
    return open_console(cluster.http)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure go a picture of the page and where to find it."""
    report = yield
    consoles = item.stash.get(OPENED, [])
    has_problems = any(console.watch.problems() for console in consoles)
    if consoles and call.when == "call" and (report.failed or has_problems):
        folder: Path = item.funcargs["tmp_path"]
        for number, console in enumerate(consoles):
            try:
                where = console.save_evidence(folder / f"browser-{number}")
            except PlaywrightError as error:
                report.sections.append(("browser", f"no picture of it: {error}"))
            else:
                report.sections.append(("browser", f"what it looked like: {where}"))
    return report
