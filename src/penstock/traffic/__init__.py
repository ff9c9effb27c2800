"""Traffic: a map cut into quadrants, one topic for each, and the client with which cars write and read it.

    from penstock.traffic import Position, TrafficClient

`grid`, `position`, `topics`, `heat` and `participation` are pure. What needs the network is imported when it
is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.client.errors import (
    DataNotAvailableError,
    DisconnectedServerError,
    DuplicateTopicNameError,
    InsufficientReplicasError,
    InvalidPositionError,
    ParticipationRequiredError,
    PenstockError,
    TopicClusterDoesNotExistError,
)
from penstock.traffic.grid import DEFAULT_GRID, BBox, Cell, Grid, Quadrant
from penstock.traffic.heat import HeatCell, Totals
from penstock.traffic.participation import Participation
from penstock.traffic.position import Position, parse_position

if TYPE_CHECKING:
    from penstock.client.kafka.topic_clusters import Cluster
    from penstock.traffic.async_client import AsyncTrafficClient
    from penstock.traffic.city_map import (
        CityMap,
        publish_map,
        publish_participation,
        read_map,
        read_participation,
    )
    from penstock.traffic.client import TrafficClient

__all__ = [
    "DEFAULT_GRID",
    "AsyncTrafficClient",
    "BBox",
    "Cell",
    "CityMap",
    "Cluster",
    "DataNotAvailableError",
    "DisconnectedServerError",
    "DuplicateTopicNameError",
    "Grid",
    "HeatCell",
    "InsufficientReplicasError",
    "InvalidPositionError",
    "Participation",
    "ParticipationRequiredError",
    "PenstockError",
    "Position",
    "Quadrant",
    "TopicClusterDoesNotExistError",
    "Totals",
    "TrafficClient",
    "parse_position",
    "publish_map",
    "publish_participation",
    "read_map",
    "read_participation",
]

_WITH_NETWORK = {
    "AsyncTrafficClient": "penstock.traffic.async_client",
    "CityMap": "penstock.traffic.city_map",
    "Cluster": "penstock.client.kafka.topic_clusters",
    "TrafficClient": "penstock.traffic.client",
    "publish_map": "penstock.traffic.city_map",
    "publish_participation": "penstock.traffic.city_map",
    "read_map": "penstock.traffic.city_map",
    "read_participation": "penstock.traffic.city_map",
}


def __getattr__(name: str) -> Any:
    if name in _WITH_NETWORK:
        return getattr(import_module(_WITH_NETWORK[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WITH_NETWORK})
