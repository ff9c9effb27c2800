"""Who may read traffic: a car that has contributed a position of its own within the last seconds.

Contributions travel on `traffic.contributions`, key = car, value `{"ts": ms}`, so that every gateway and a
car that has just restarted know of them. A car that drives writes positions all the time, and its
contribution is worth a record only when the last one is getting old: after a third of the window.

How long the window is, the cluster says, and not the reader: under the key `participation` of `traffic.map`,
`{"window_s": seconds}`. Where nobody has said so, or something else is there, it is a minute.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

import orjson

from penstock.client.errors import InvalidMessageError

WINDOW_S: Final = 60.0
WINDOW_S_MAX: Final = 86_400.0
PARTICIPATION_KEY: Final = b"participation"
RECORDS_PER_WINDOW: Final = 3


class Participation:
    """What is known of contributions. The time is always given: nothing here reads a clock.

    >>> participation = Participation(window_s=60)
    >>> participation.contributed("7", ts_ms=1_000)
    >>> participation.may_read("7", now_ms=61_000), participation.may_read("7", now_ms=61_001)
    (True, False)

    With a window of 0 the rule is off and everybody may read.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self.window_ms = window_ms_of(window_s)
        self._last: dict[str, int] = {}
        self._recorded: dict[str, int] = {}
        self._kept_until_ms = 0

    @property
    def required(self) -> bool:
        return self.window_ms > 0

    def contributed(self, car: str, ts_ms: int) -> None:
        """`ts_ms` is when it wrote, not what it says in its position."""
        if self.required and ts_ms > self._last.get(car, -1):
            self._last[car] = ts_ms
            self._forget(ts_ms)

    def may_read(self, car: str, now_ms: int) -> bool:
        if not self.required:
            return True
        last = self._last.get(car)
        return last is not None and now_ms - last <= self.window_ms

    def due(self, cars: Collection[str], now_ms: int) -> list[str]:
        """All of these contribute now: those whose last record for others is old enough for another one.

        >>> participation = Participation(window_s=60)
        >>> participation.due(["7", "8"], now_ms=1_000), participation.due(["7", "9"], now_ms=20_000)
        (['7', '8'], ['9'])
        """
        if not self.required:
            return []
        self._last.update(dict.fromkeys(cars, now_ms))
        last = now_ms - self.window_ms // RECORDS_PER_WINDOW
        recorded = self._recorded
        found = [car for car in cars if recorded.get(car, -math.inf) <= last]
        recorded.update(dict.fromkeys(found, now_ms))
        self._forget(now_ms)
        return found

    def _forget(self, now_ms: int) -> None:
        """Cars that are long gone, once per window: there may be very many of them over the years."""
        if now_ms <= self._kept_until_ms:
            return
        self._kept_until_ms = now_ms + self.window_ms
        oldest = now_ms - 2 * self.window_ms
        self._last = {car: ts for car, ts in self._last.items() if ts >= oldest}
        self._recorded = {car: ts for car, ts in self._recorded.items() if ts >= oldest}


def window_ms_of(window_s: float) -> int:
    """ValueError for what is no window."""
    if not 0 <= window_s <= WINDOW_S_MAX:
        raise ValueError(f"the window of participation is from 0 to {WINDOW_S_MAX:g} s, not {window_s!r}")
    return int(window_s * 1000)


def window_value(window_s: float) -> bytes:
    """
    >>> window_value(30)
    b'{"window_s":30}'
    """
    window_ms_of(window_s)
    return orjson.dumps({"window_s": window_s})


def parse_window(value: bytes | None) -> float:
    """What the cluster says, in seconds; the default if that is no window: who breaks it opens nothing.

    >>> parse_window(b'{"window_s":30}'), parse_window(None), parse_window(b"nonsense")
    (30.0, 60.0, 60.0)
    """
    try:
        window_s = orjson.loads(value or b"")["window_s"]
        if isinstance(window_s, bool) or not isinstance(window_s, int | float):
            return WINDOW_S
        window_ms_of(window_s)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return WINDOW_S
    return float(window_s)


def contribution_value(ts_ms: int) -> bytes:
    """
    >>> contribution_value(1_000)
    b'{"ts":1000}'
    """
    return orjson.dumps({"ts": ts_ms})


def parse_contribution(key: bytes | None, value: bytes | None) -> tuple[str, int]:
    """Car and time; InvalidMessageError for what is not a contribution."""
    try:
        car = (key or b"").decode()
        found: Any = orjson.loads(value or b"")
        ts = found["ts"]
    except (UnicodeDecodeError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidMessageError(f"not a contribution: {error}") from error
    if not car or isinstance(ts, bool) or not isinstance(ts, int) or ts < 0:
        raise InvalidMessageError("not a contribution: no car, or no time")
    return car, ts
