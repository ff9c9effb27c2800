"""A real Chromium with the console in it.

    with Chromium() as chromium:
        console = Console(chromium.new_context(), cluster.http)
        console.open("topics")

Drawing by software is most of what a browser costs on a machine without a display. So there are two browsers,
each started when it is first asked for: one without WebGL, for nearly everything, and one for the map.

Whatever goes wrong in the page without the test having announced it is a failure of the test: an uncaught
error, a rejected promise that nobody caught, an error in the browser's log, a request that failed.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect, sync_playwright

from tests.support.parts import CHROMIUM_NAMES
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import (
        Browser,
        BrowserContext,
        ConsoleMessage,
        Locator,
        Page,
        Playwright,
        Request,
    )

WAIT_MS_MAX = 15_000.0 * PATIENCE
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
LOW_DESKTOP = {"width": 1100, "height": 560}
"""Laid out like any desktop, with a small map: each pixel of it is computed."""
OPTIONS = ["--disable-dev-shm-usage", "--disable-gpu-rasterization"]
WITHOUT_WEBGL = ["--disable-gpu", "--disable-software-rasterizer", "--disable-3d-apis"]
# Only WebGL goes through the emulated GPU: pages themselves are drawn faster without one.
SOFTWARE_WEBGL = "--enable-unsafe-swiftshader"
"""Also one of Playwright's own options, for every browser."""
WITH_WEBGL = ["--use-gl=angle", "--use-angle=swiftshader-webgl", SOFTWARE_WEBGL]
CALLED_OFF = "net::ERR_ABORTED"
"""By the page itself, which needs the answer no longer."""

# What a test may announce: the browser writes these into its log, however well a page bears them.
NO_GATEWAY = "ERR_CONNECTION_(REFUSED|RESET)|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED_ENCODING"
NO_NETWORK = "ERR_INTERNET_DISCONNECTED|ERR_NETWORK_CHANGED"
REFUSED = "status of 40[13]"
UNAVAILABLE = "status of 503"
READ_BACK = "GPU stall due to ReadPixels"
"""Of the browser about itself: it fetches what WebGL drew from the emulated GPU."""

expect.set_options(timeout=WAIT_MS_MAX)


class Chromium:
    """The system's, or the one that Playwright has brought."""

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._browsers: dict[bool, Browser] = {}
        """By whether they have WebGL."""

    def __enter__(self) -> Chromium:
        self._playwright = sync_playwright().start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._playwright is not None
        for browser in self._browsers.values():
            browser.close()
        self._playwright.stop()

    def new_context(self, *, with_webgl: bool = False, **options: Any) -> BrowserContext:
        settings: dict[str, Any] = {
            "viewport": LOW_DESKTOP if with_webgl else DESKTOP,
            "locale": "en-GB",
            "timezone_id": "UTC",
            "reduced_motion": "reduce",
        }
        return self._browser(with_webgl).new_context(**(settings | options))

    def _browser(self, with_webgl: bool) -> Browser:
        assert self._playwright is not None, "not started"
        if with_webgl not in self._browsers:
            path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
            options = [*OPTIONS, *(WITH_WEBGL if with_webgl else WITHOUT_WEBGL)]
            # Chromium refuses to be root in a sandbox of its own.
            options += ["--no-sandbox"] if os.geteuid() == 0 else []
            self._browsers[with_webgl] = self._playwright.chromium.launch(
                executable_path=path,
                args=options,
                ignore_default_args=None if with_webgl else [SOFTWARE_WEBGL],
            )
        return self._browsers[with_webgl]


class Watch:
    """Hears what goes wrong in a page."""

    def __init__(self, page: Page) -> None:
        self._announced: list[re.Pattern[str]] = []
        self._heard: list[str] = []
        page.on("pageerror", lambda error: self._heard.append(f"uncaught: {error.stack or error}"))
        page.on("console", self._hear_log)
        page.on("requestfailed", self._hear_failed_request)
        page.on("crash", lambda _page: self._heard.append("the page crashed"))

    def announce(self, pattern: str) -> None:
        """From here on what matches is no problem."""
        self._announced.append(re.compile(pattern))

    def problems(self) -> list[str]:
        return [each for each in self._heard if not any(known.search(each) for known in self._announced)]

    def _hear_log(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self._heard.append(
                f"{message.type} in the log: {message.text} ({message.location.get('url', '')})"
            )

    def _hear_failed_request(self, request: Request) -> None:
        if request.failure != CALLED_OFF:
            self._heard.append(f"failed: {request.method} {request.url}: {request.failure}")


class Console:
    """One page with the console, and what tests do with it."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context = context
        self.address = address
        context.set_default_timeout(WAIT_MS_MAX)
        self.page: Page = context.new_page()
        self.watch = Watch(self.page)

    def open(self, *path: str) -> Console:
        """At a place such as ("topics", "orders")."""
        self.page.goto(f"{self.address}/#/{'/'.join(path)}")
        return self

    def go(self, name: str) -> Locator:
        """By the navigation, to a page; the page."""
        self.page.get_by_test_id(f"nav-{name}").click()
        return self.on(name)

    def on(self, name: str) -> Locator:
        """The page, once it is shown."""
        page = self.page.get_by_test_id(f"page-{name}")
        expect(page).to_be_visible()
        return page

    def find(self, test_id: str) -> Locator:
        return self.page.get_by_test_id(test_id)

    def confirm(self) -> None:
        """Yes, to the question that is asked."""
        self.find("confirm").click()
        expect(self.find("dialog")).to_have_count(0)

    def save_evidence(self, folder: Path) -> Path:
        """What the page looks like and what it said, for whoever has to find out why a test failed."""
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=folder / "page.png", full_page=True, timeout=WAIT_MS_MAX)
        (folder / "page.html").write_text(self.page.content())
        (folder / "problems.txt").write_text("\n".join([self.page.url, *self.watch.problems()]))
        return folder

    def close(self) -> None:
        self.context.close()
