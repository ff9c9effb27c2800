"""When each step of the simulation is due in real time.

Steps are as far apart as the simulated time between them, so a viewer sees cars at their real speed, and a
position's timestamp is the time when its step was due. Whoever is late hurries, but only so far: a step
that is overdue for longer is not made good. Time is left out instead; the cars have stood still meanwhile,
as far as anybody can tell, and the timestamps go on with the real time.
"""

from __future__ import annotations

from typing import Final

STEPS_PER_S: Final = 20
STEP_S: Final = 1.0 / STEPS_PER_S
STEP_MS: Final = 1_000 // STEPS_PER_S
LAG_S_MAX: Final = 1.0


class Pace:
    """Times are those of a monotonic clock, in seconds; `wall_ms` is what the real one says at `start_s`."""

    def __init__(self, start_s: float, wall_ms: int, steps: int = 0) -> None:
        """`steps` have been taken already."""
        self._start_s = start_s
        self._wall_ms = wall_ms
        self._steps = steps
        self.left_out_s = 0.0

    @property
    def due_s(self) -> float:
        """When the next step is due."""
        return self._start_s + (self._steps + 1) * STEP_S + self.left_out_s

    def next(self, now_s: float) -> int:
        """Takes the next step, which is due; the timestamp for its positions."""
        lag_s = now_s - self.due_s
        if lag_s > LAG_S_MAX:
            # To the millisecond, so that no two steps have the same timestamp.
            self.left_out_s += round(lag_s, 3)
        self._steps += 1
        return self._wall_ms + self._steps * STEP_MS + round(self.left_out_s * 1_000)

    def lag_s(self, now_s: float) -> float:
        """How late the next step is; 0 if it is not."""
        return max(0.0, now_s - self.due_s)
