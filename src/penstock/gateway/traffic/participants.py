"""Which cars have contributed lately, as far as one gateway knows: from requests of its own, and from the
contributions that other gateways and clients have written. Pure.

The rule is that of penstock.traffic.participation. Here it has bounds: a time that lies ahead counts as now,
since anybody can write to a topic, and only so many cars are remembered, those that contributed last.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.client.errors import InvalidMessageError
from penstock.traffic.participation import RECORDS_PER_WINDOW, parse_contribution
from penstock.traffic.position import CAR_CHARACTERS_MAX

FORGOTTEN_AT_ONCE: Final = 2
"""Whenever one is remembered: old ones go faster than new ones come."""


class Known(NamedTuple):
    contributed_ms: int
    recorded_ms: int
    """When others were told of it last; -1 if never."""


NOTHING: Final = Known(-1, -1)


class Participants:
    def __init__(self, window_s: float, cars_max: int) -> None:
        """Without a window everybody may read."""
        self.window_ms = int(window_s * 1000)
        self._cars_max = cars_max
        self._known: dict[str, Known] = {}
        """Who contributed last stands last."""
        self.refused = 0
        """Records that are no contributions."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def required(self) -> bool:
        return self.window_ms > 0

    def may_read(self, car: str, now_ms: int) -> bool:
        if not self.required:
            return True
        known = self._known.get(car)
        return known is not None and now_ms - known.contributed_ms <= self.window_ms

    def is_due(self, car: str, now_ms: int) -> bool:
        """Whether others should be told of a contribution that this car makes now."""
        if not self.required:
            return False
        recorded_ms = self._known.get(car, NOTHING).recorded_ms
        return recorded_ms < 0 or now_ms - recorded_ms >= self.window_ms / RECORDS_PER_WINDOW

    def contributed(self, car: str, now_ms: int, *, is_recorded: bool) -> None:
        """Through this gateway, at this moment; `is_recorded`: others were told."""
        if self.required:
            recorded_ms = now_ms if is_recorded else self._known.get(car, NOTHING).recorded_ms
            self._remember(car, now_ms, recorded_ms, now_ms)

    def apply(self, key: bytes | None, value: bytes | None, now_ms: int) -> None:
        """The next record of a partition of `traffic.contributions`."""
        if not self.required or value is None:
            return
        try:
            car, ts_ms = parse_contribution(key, value)
        except InvalidMessageError:
            self.refused += 1
            return
        if len(car) > CAR_CHARACTERS_MAX:
            self.refused += 1
            return
        ts_ms = min(ts_ms, now_ms)
        if ts_ms < now_ms - self.window_ms:
            return
        known = self._known.get(car, NOTHING)
        self._remember(car, max(ts_ms, known.contributed_ms), max(ts_ms, known.recorded_ms), now_ms)

    def _remember(self, car: str, contributed_ms: int, recorded_ms: int, now_ms: int) -> None:
        self._known.pop(car, None)
        self._known[car] = Known(contributed_ms, recorded_ms)
        for _ in range(FORGOTTEN_AT_ONCE):
            oldest = next(iter(self._known))
            is_old = now_ms - self._known[oldest].contributed_ms > self.window_ms
            if oldest != car and (is_old or len(self._known) > self._cars_max):
                del self._known[oldest]
