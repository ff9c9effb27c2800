"""The console in a real browser, before a real cluster.

One browser for all files that a test process runs, one cluster for each file, a fresh page for each test.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error as PlaywrightError

from penstock.gateway.console.built import FOLDER, INDEX
from tests.support.browser import Chromium, Console
from tests.support.supervised import SupervisedCluster

OPENED = pytest.StashKey[list[Console]]()
OpenConsole = Callable[..., Console]


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    assert (FOLDER / INDEX).exists(), "the console is not built: make console"
    with Chromium() as started:
        yield started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with SupervisedCluster(folder, "--flush", "os", brokers=3, with_gateway=True) as running:
        yield running


@pytest.fixture
def open_console(request: pytest.FixtureRequest, chromium: Chromium, tmp_path: Path) -> Iterator[OpenConsole]:
    """A function of an address and of Playwright's options for a context. Evidence goes to `tmp_path`."""
    opened: list[Console] = []
    request.node.stash[OPENED] = opened

    def open_one(address: str, **options: Any) -> Console:
        console = Console(chromium.new_context(**options), address)
        opened.append(console)
        return console

    yield open_one
    problems = [problem for console in opened for problem in console.watch.problems()]
    for console in opened:
        console.close()
    assert not problems, "unannounced, in the browser:\n" + "\n".join(problems)


@pytest.fixture
def console(open_console: OpenConsole, cluster: SupervisedCluster) -> Console:
    """A page of its own before the file's cluster; `console.open(…)` goes somewhere."""
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
