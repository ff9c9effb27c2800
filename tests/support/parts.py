"""Programs that tests need and pip cannot bring, and what happens where one is missing.

A test says what it needs by `@pytest.mark.needs("kcat")`; all of tests/browser needs Chromium. Where it is
missing, these tests are not run, and one line at the end says so. With PENSTOCK_ALL_PARTS=1, as on CI's
machine, a missing program is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

CHROMIUM_NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is Chromium without windows, at a fraction of the cost: others draw where nobody looks, too."""
HOW_TO_GET: Final = {
    "curl": "Debian: apt-get install curl",
    "kcat": "Debian: apt-get install kcat; macOS: brew install kcat",
    "chromium": "Debian: apt-get install chromium; elsewhere: .venv/bin/playwright install chromium",
}


def is_there(program: str) -> bool:
    if program != "chromium":
        return shutil.which(program) is not None
    return any(map(shutil.which, CHROMIUM_NAMES)) or any(map(_starts, _playwrights_own()))


def left_out(items: list[pytest.Item]) -> Counter[str]:
    """Takes out of the list what cannot be run here; how many tests, by the program that they miss."""
    has = cache(is_there)
    found: Counter[str] = Counter()
    kept = []
    for item in items:
        lacking = next((program for program in needs(item) if not has(program)), None)
        if lacking is None:
            kept.append(item)
        else:
            found[lacking] += 1
    if found and os.environ.get("PENSTOCK_ALL_PARTS"):
        raise pytest.UsageError("\n".join(lines(found)))
    items[:] = kept
    return found


def needs(item: pytest.Item) -> Iterable[str]:
    if item.nodeid.startswith("tests/browser/"):
        yield "chromium"
    for mark in item.iter_markers("needs"):
        yield from mark.args


def lines(found: Counter[str]) -> Iterable[str]:
    for program, count in found.items():
        tests = "1 test" if count == 1 else f"{count:,} tests"
        yield f"not run, as {program} is missing: {tests} ({HOW_TO_GET[program]})"


def _playwrights_own() -> Iterable[Path]:
    cache_folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright"
    for name in ("chrome-headless-shell", "headless_shell", "chrome"):
        yield from Path(cache_folder).glob(f"chromium*/*/{name}")


def _starts(program: Path) -> bool:
    """Playwright brings the browser, and not the system's libraries that it is linked with."""
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
