"""How often a client address may ask: a bucket for each, filled at a steady rate. Pure."""

from __future__ import annotations

from collections import OrderedDict


class Rates:
    def __init__(self, per_second: float, burst: int, addresses_max: int) -> None:
        self._per_second = per_second
        self._burst = float(max(1, burst))
        self._addresses_max = addresses_max
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """What is left, and when that was so. Who has asked last is at the end."""

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, address: str, now: float) -> float:
        """0 if the address may ask now; otherwise in how many seconds."""
        if self._per_second <= 0:
            return 0.0
        left, then = self._buckets.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._per_second)
        allowed = left >= 1
        self._buckets[address] = (left - 1 if allowed else left, now)
        if len(self._buckets) > self._addresses_max:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._per_second
