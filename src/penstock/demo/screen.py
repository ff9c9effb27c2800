"""Where the demo shows itself: a live view on a terminal, plain lines elsewhere.

Whoever reads may go away, as `head` does, or a terminal that is closed. `is_gone` says so; from then on
nothing is written, and the demo has its reason to stop.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from penstock.demo.view import View, live_view, status_line

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_S: Final = 5.0
WAITING_S: Final = 30.0
"""While it waits for something, there is less to tell."""
LIVE_S: Final = 0.5


class Screen(Protocol):
    is_gone: bool
    shows_events: bool
    """Whether they are part of what it shows, and need no lines of their own."""

    def say(self, line: str) -> None: ...

    def show(self, view: View) -> None: ...

    def close(self) -> None: ...


class PlainScreen:
    """A line for what happens, and now and then one for how it goes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_gone = sys.stdout is None
        self.shows_events = False
        self._clock = clock
        self._next = clock() + PLAIN_S
        self._shown = ""

    def say(self, line: str) -> None:
        if self.is_gone:
            return
        try:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        except OSError:
            self.is_gone = True

    def show(self, view: View) -> None:
        now = self._clock()
        line = view.doing or status_line(view)
        if now >= self._next or (view.doing and line != self._shown):
            self._next = now + (WAITING_S if view.doing else PLAIN_S)
            self._shown = line
            self.say(line)

    def close(self) -> None:
        pass


class LiveScreen:
    """What is said scrolls away above the view, which stays and is drawn anew."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.is_gone = False
        self.shows_events = True
        self._console = Console(highlight=False, markup=False)
        self._live: Live | None = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._next = 0.0

    def say(self, line: str) -> None:
        if not self.is_gone:
            try:
                self._console.print(line)
            except OSError:
                self.is_gone = True

    def show(self, view: View) -> None:
        if self._live is None or self.is_gone or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LIVE_S
        try:
            self._live.update(live_view(view), refresh=True)
        except OSError:
            self.is_gone = True

    def close(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            try:
                live.stop()
            except OSError:
                self.is_gone = True


def screen() -> Screen:
    return LiveScreen() if sys.stdout is not None and sys.stdout.isatty() else PlainScreen()
