"""The map that everybody agrees on: the newest records of the topic `traffic.map`.

Under the key `grid` is the Grid, under `streets` a GeoJSON FeatureCollection of LineStrings, each with the
properties `kind` (avenue, arterial, street, bridge, river) and `name`. Beside them, under `participation`, is
the window of the rule that who reads contributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.client.errors import InvalidMessageError
from penstock.client.kafka.producer import KafkaProducer
from penstock.client.kafka.topic_clusters import TopicClusters
from penstock.client.types import DEFAULT_TIMEOUT_S
from penstock.traffic.brokers import brokers_at
from penstock.traffic.grid import DEFAULT_GRID, Grid
from penstock.traffic.log_reader import LogReader
from penstock.traffic.participation import PARTICIPATION_KEY, parse_window, window_value
from penstock.traffic.topics import MAP, SHARED_PLANS

if TYPE_CHECKING:
    from confluent_kafka import Message

    from penstock.client.kafka.cluster import Cluster as Brokers

GRID_KEY: Final = b"grid"
STREETS_KEY: Final = b"streets"


@dataclass(frozen=True, slots=True)
class CityMap:
    grid: Grid
    streets: dict[str, Any] | None = None


def read_map(bootstrap: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> CityMap:
    """The map of the cluster; the default grid without streets where nobody has published one.

    >>> from penstock.traffic import DEFAULT_GRID, publish_map, read_map
    >>> publish_map("127.0.0.1:9092", DEFAULT_GRID, {"type": "FeatureCollection", "features": []})
    >>> read_map("127.0.0.1:9092").streets
    {'type': 'FeatureCollection', 'features': []}

    InvalidMessageError if what is there is not a map: a default in its place would put cars elsewhere.
    """
    brokers = brokers_at(bootstrap, timeout_s)
    clusters = TopicClusters(brokers)
    with closing(LogReader(brokers, clusters)) as reader:
        return current_map(clusters, reader)


def publish_map(
    bootstrap: str,
    grid: Grid,
    streets: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Makes this the map of the cluster. One that is the map already is not written again."""
    drawn = {} if streets is None else {STREETS_KEY: orjson.dumps(streets)}
    _publish(brokers_at(bootstrap, timeout_s), {GRID_KEY: grid.to_json(), **drawn})


def read_participation(bootstrap: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> float:
    """How recently who reads traffic must have contributed, in seconds: a minute, or what was published.

    >>> from penstock.traffic import publish_participation, read_participation
    >>> publish_participation("127.0.0.1:9092", 90)
    >>> read_participation("127.0.0.1:9092")
    90.0
    """
    brokers = brokers_at(bootstrap, timeout_s)
    clusters = TopicClusters(brokers)
    with closing(LogReader(brokers, clusters)) as reader:
        return current_window(clusters, reader)


def publish_participation(bootstrap: str, window_s: float, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Makes this the rule of the cluster: gateways go by it at once, clients within a minute.

    0 lets everybody read. ValueError for less than that, or for more than a day.
    """
    value = window_value(window_s)
    _publish(brokers_at(bootstrap, timeout_s), {PARTICIPATION_KEY: value})


def current_window(clusters: TopicClusters, reader: LogReader) -> float:
    """As `read_participation`, for those who have a connection."""
    return parse_window(_newest(clusters, reader).get(PARTICIPATION_KEY))


def _publish(brokers: Brokers, values: Mapping[bytes, bytes]) -> None:
    clusters = TopicClusters(brokers)
    clusters.ensure([SHARED_PLANS[MAP]])
    with closing(LogReader(brokers, clusters)) as reader:
        there = _newest(clusters, reader)
    with closing(KafkaProducer(brokers, (MAP,))) as producer:
        for key, value in values.items():
            if value != there.get(key):
                producer.send(MAP, value, key)


def current_map(clusters: TopicClusters, reader: LogReader) -> CityMap:
    """As `read_map`, for those who have a connection."""
    newest = _newest(clusters, reader)
    found = newest.get(GRID_KEY)
    grid = DEFAULT_GRID if found is None else Grid.from_json(found)
    return CityMap(grid, _streets(newest.get(STREETS_KEY)))


def _newest(clusters: TopicClusters, reader: LogReader) -> dict[bytes, bytes]:
    if not clusters.exists(MAP):
        return {}

    def parse(message: Message) -> tuple[bytes, bytes | None]:
        key = message.key()
        return key if isinstance(key, bytes) else b"", message.value()

    newest = dict(reader.read(MAP, parse))
    return {key: value for key, value in newest.items() if value is not None}


def _streets(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InvalidMessageError(f"the streets of the map are not JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("features"), list):
        raise InvalidMessageError("the streets of the map are not a FeatureCollection")
    return found
