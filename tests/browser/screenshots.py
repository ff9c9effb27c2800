"""Pictures of the console for the documentation, from a gateway that runs:

    .venv/bin/python -m tests.browser.screenshots [--http http://127.0.0.1:8080] [--out docs/images]

Best while `penstock demo` runs: the map is waited for until it has some heat, and the newest job of Flights
until it is complete.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.png import shrink
from tests.support.browser import DESKTOP, WAIT_MS_MAX, Chromium, Console

BYTES_MAX = 300_000
CELLS_MIN = 100
"""That a map worth a picture shows."""
WATCHED_MS = 20_000
"""So that charts of the last minute have something to show."""


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    page: str
    scheme: str = "light"


PICTURES = (
    Picture("console-overview", "overview"),
    Picture("console-traffic", "traffic"),
    Picture("console-traffic-dark", "traffic", "dark"),
    Picture("console-cluster", "cluster"),
    Picture("console-topics", "topics"),
    Picture("console-flights", "flights"),
)


def take(chromium: Chromium, address: str, picture: Picture, folder: Path, *, patience: float = 4.0) -> Path:
    context = chromium.new_context(
        with_webgl=picture.page == "traffic", viewport=DESKTOP, color_scheme=picture.scheme
    )
    console = Console(context, address)
    try:
        console.open(picture.page)
        console.on(picture.page)
        expect(console.find("state-loading")).to_have_count(0)
        if picture.page == "traffic":
            console.page.wait_for_function(
                "cells => (window.__penstockMap?.cells ?? 0) >= cells",
                arg=CELLS_MIN,
                timeout=WAIT_MS_MAX * patience,
            )
            console.page.wait_for_function("() => window.__penstockMap.map.loaded()")
        if picture.page == "flights":
            show_fares(console, WAIT_MS_MAX * patience)
        console.page.wait_for_timeout(WATCHED_MS)
        console.page.mouse.move(0, 0)
        path = folder / f"{picture.name}.png"
        path.write_bytes(shrink(console.page.screenshot(), BYTES_MAX))
        problems = console.watch.problems()
        assert not problems, problems
        return path
    finally:
        console.close()


def show_fares(console: Console, wait_ms: float) -> None:
    """Of the newest job, when it is complete."""
    console.find("jobs").get_by_role("rowheader").get_by_role("link").first.click()
    expect(console.find("job-state")).to_have_attribute("data-state", "complete", timeout=wait_ms)
    console.find("query-q4").check()
    expect(console.find("chart-fares")).to_be_visible()
    console.find("results").scroll_into_view_if_needed()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--http", default="http://127.0.0.1:8080", help="address of the gateway")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder for the pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with Chromium() as chromium:
        for picture in PICTURES:
            path = take(chromium, options.http.rstrip("/"), picture, options.out)
            print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
