"""How far the live map is behind: the console's Traffic page in a real browser, sampled while it draws.

The page says after each frame which position was the newest in it (`newest`, the time the simulator gave
that position) and when the frame was on the screen (`shownAt`); both clocks are this machine's.
Beside it the same is taken from the stream of events that the page reads, so that what the browser itself
costs can be told.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from http.cookiejar import CookieJar

from playwright.sync_api import Page, sync_playwright

from bench.load.arguments import arguments, result
from bench.stats import percentile

CHROMIUM_ARGUMENTS = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
POLL_MS = 20
READY_S_MAX = 60.0


def watch_stream(http: str, until: float, lags_s: list[float]) -> None:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    opener.open(f"{http}/v1/console", timeout=10).read()
    with opener.open(f"{http}/v1/traffic/heatmap/stream", timeout=30) as stream:
        for line in stream:
            now = time.time()
            if now > until:
                return
            if line.startswith(b"data:") and (newest := json.loads(line[5:]).get("newest")):
                lags_s.append(now - newest / 1000)


def wait_for_map(page: Page) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while not page.evaluate("() => Boolean(window.__penstockMap?.newest)"):
        if time.monotonic() > deadline:
            raise SystemExit("the map shows nothing")
        page.wait_for_timeout(POLL_MS)


def watch_page(page: Page, until: float, lags_s: list[float]) -> None:
    seen = None
    while time.time() < until:
        shown = page.evaluate("() => window.__penstockMap && [__penstockMap.shownAt, __penstockMap.newest]")
        if shown and shown != seen and shown[1]:
            lags_s.append((shown[0] - shown[1]) / 1000)
            seen = shown
        page.wait_for_timeout(POLL_MS)


def main() -> None:
    given = arguments()
    http = given["http"]
    stream_lags, page_lags = list[float](), list[float]()
    with sync_playwright() as playwright:
        options = {"executable_path": given["chromium"]} if given.get("chromium") else {}
        browser = playwright.chromium.launch(args=[*CHROMIUM_ARGUMENTS], **options)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{http}/#/traffic")
        wait_for_map(page)
        until = time.time() + given["seconds"]
        stream = threading.Thread(target=watch_stream, args=(http, until, stream_lags))
        stream.start()
        watch_page(page, until, page_lags)
        stream.join()
        browser.close()
    result(
        page_p50_s=percentile(page_lags, 0.5),
        page_p95_s=percentile(page_lags, 0.95),
        stream_p50_s=percentile(stream_lags, 0.5),
        stream_p95_s=percentile(stream_lags, 0.95),
        frames=len(page_lags),
        events=len(stream_lags),
    )


if __name__ == "__main__":
    main()
