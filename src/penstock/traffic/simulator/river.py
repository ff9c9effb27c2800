"""The river, and how the city follows it.

The plan of the city is a chequerboard on the unit square. On the ground it is bent: near the river the
streets run along its course, and far away from it they are straight again. What is a straight line across
the board, between two rows of crossings, is so the river, and no street can cross it but the bridges.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.traffic.simulator.geometry import Point

RIVER_Y: Final = 0.50
"""Where it is on the plan, from the west edge to the east edge."""
HALF_WIDTH: Final = 0.016
"""From the middle of the river to its quays."""
REACH: Final = 0.30
"""Streets at this distance follow the river's course by a third, at twice the distance no longer."""
NORTH_SHEAR, SOUTH_SHEAR = 0.26, -0.10
"""Each bank has its own idea of where north is."""
COURSE_STEPS: Final = 96


def on_ground(point: Point) -> Point:
    """Where a point of the plan is on the ground, in the unit square or a little beside it."""
    x, y = point
    away = y - RIVER_Y
    shear = NORTH_SHEAR if away > 0.0 else SOUTH_SHEAR
    follows = math.exp(-((away / REACH) ** 2))
    sway = 0.012 * math.sin(9.0 * y) + 0.006 * math.sin(23.0 * y + 1.0)
    return x + shear * away + sway, y + _course(x) * follows + 0.006 * math.sin(11.0 * x + 5.0 * y)


def course() -> list[Point]:
    """The middle of the river, from west to east."""
    steps = (step / COURSE_STEPS for step in range(-2, COURSE_STEPS + 3))
    points = [on_ground((x, RIVER_Y)) for x in steps]
    return [(min(max(x, 0.0), 1.0), y) for x, y in points]


def _course(x: float) -> float:
    """From the north-west to the south-east, with meanders."""
    return 0.17 * (0.5 - x) + 0.055 * math.sin(2.0 * math.pi * (1.25 * x + 0.10)) + 0.012 * math.sin(17.0 * x)
