"""Asking the gateway, again and again, in a thread of its own: an answer may take seconds while brokers die.

The viewer's cookie, with which the heat map is shown to who has no car, comes from `/v1/console`. It is
another one after each start of the gateway.
"""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import threading
import urllib.error
import urllib.request
from collections import deque
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from penstock.demo.figures import (
    Event,
    Figures,
    read_brokers,
    read_events,
    read_heat,
    read_leaders,
    told_events,
    told_leaders,
)

POLL_S: Final = 0.5
ANSWER_S_MAX: Final = 5.0
EVENTS_MAX: Final = 100


class NoAnswer(Exception):  # noqa: N818 - an outcome that is expected while parts start and die
    """The gateway is away, or knows nothing yet."""


class Gateway:
    """`figures` is what was heard last; it is replaced as a whole, by the thread alone."""

    def __init__(self, url: str) -> None:
        self.figures = Figures()
        self._url = url
        self._done = threading.Event()
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._after = ""
        self._leaders: dict[str, int | None] = {}
        self._open = opener()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()

    def _run(self) -> None:
        while not self._done.wait(POLL_S):
            self.figures = self._look()

    def _look(self) -> Figures:
        last = self.figures
        try:
            status = self._get("/v1/cluster")
            told = self._get(f"/v1/cluster/log{self._after}")
        except NoAnswer:
            return replace(last, answers=False)
        self._after = f"/{told['after']}" if told.get("after") else ""
        new = told_events(read_events(told), self._leaders)
        self._leaders |= told_leaders(new)
        self._events += new
        figures = replace(
            last,
            answers=True,
            controller=status.get("controller"),
            brokers=read_brokers(status),
            leaders=read_leaders(status),
            events=tuple(self._events),
        )
        try:
            return replace(figures, heat=read_heat(self._get_as_viewer("/v1/traffic/heatmap")))
        except NoAnswer:
            return figures

    def _get_as_viewer(self, path: str) -> dict[str, Any]:
        try:
            return self._get(path)
        except Refused:
            self._get("/v1/console")
            return self._get(path)

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with self._open.open(self._url + path, timeout=ANSWER_S_MAX) as response:
                told = json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise (Refused if error.code == HTTPStatus.FORBIDDEN else NoAnswer)(path) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(path) from error
        if not isinstance(told, dict):
            raise NoAnswer(path)
        return told


class Refused(NoAnswer):
    """The gateway does not know this viewer, or not any more."""


def opener() -> urllib.request.OpenerDirector:
    """It keeps cookies, and goes to this machine straight, whatever proxy the environment names."""
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    )
