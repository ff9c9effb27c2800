"""The city of the default map, for the tests that drive in it: drawn once in a process, when one asks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from penstock.traffic.grid import DEFAULT_GRID
from penstock.traffic.simulator.network import build_network

if TYPE_CHECKING:
    from penstock.traffic.simulator.network import Network


@cache
def city() -> Network:
    return build_network(DEFAULT_GRID)
