"""Opening the console, where there is somebody to look at it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping


def has_display(environment: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Without one, `webbrowser` would take the terminal for a browser of text."""
    if platform in ("darwin", "win32"):
        return True
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def open_browser(url: str) -> None:
    """In a process of its own: it may be slow and talkative, and its window outlives the demo."""
    subprocess.Popen(  # noqa: S603 - this interpreter and its own module
        [sys.executable, "-m", "webbrowser", url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
