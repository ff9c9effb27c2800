"""The street network as GeoJSON, for maps to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.traffic.simulator.network import Network, river_line, street_line

if TYPE_CHECKING:
    from penstock.traffic.grid import Grid
    from penstock.traffic.simulator.geometry import Point


def streets_geojson(network: Network, grid: Grid) -> dict[str, Any]:
    """A FeatureCollection of lines, each with its `kind` and `name`; the river first, streets on top."""
    features = [_feature("river", "River", river_line(grid))]
    features += [_feature(line.kind, line.name, street_line(network, line)) for line in network.plan.lines]
    return {"type": "FeatureCollection", "features": features}


def _feature(kind: str, name: str, points: list[Point]) -> dict[str, Any]:
    line = {"type": "LineString", "coordinates": [[lon, lat] for lat, lon in points]}
    return {"type": "Feature", "properties": {"kind": kind, "name": name}, "geometry": line}
