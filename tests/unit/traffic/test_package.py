"""What `penstock.traffic` offers, what it costs those who want only the map, and wrong arguments."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock.traffic
from penstock.traffic import (
    InvalidPositionError,
    PenstockError,
    TrafficClient,
    publish_map,
    publish_participation,
    read_map,
)
from penstock.traffic.grid import DEFAULT_GRID


def test_names() -> None:
    for name in penstock.traffic.__all__:
        assert getattr(penstock.traffic, name) is not None
        assert name in dir(penstock.traffic)
        if name.endswith("Error"):
            assert issubclass(getattr(penstock.traffic, name), PenstockError)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = penstock.traffic.Nothing


def test_the_map_needs_no_network_and_no_spark() -> None:
    script = "from penstock.traffic import Grid, Position\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(result.stdout.split())
    assert not {"confluent_kafka", "numpy", "pandas", "pyspark"} & modules


def test_a_gateway_is_not_a_broker() -> None:
    for call in (
        lambda: TrafficClient("http://127.0.0.1:8080", 7),
        lambda: read_map("https://127.0.0.1:8080"),
        lambda: publish_map("http://127.0.0.1:8080", DEFAULT_GRID),
    ):
        with pytest.raises(ValueError, match="is a gateway"):
            call()


@pytest.mark.parametrize("broker", ["", "::::", "host:99999999"])
def test_addresses_that_are_none(broker: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        TrafficClient(broker, 7)


def test_other_arguments() -> None:
    for car in (True, None, "", 7.5):
        with pytest.raises(InvalidPositionError, match=r"^car: "):
            TrafficClient("127.0.0.1:1", car)  # type: ignore[arg-type]  # what this is about
    with pytest.raises(ValueError, match="timeout_s"):
        TrafficClient("127.0.0.1:1", 7, timeout_s=0)
    with pytest.raises(TypeError, match="participation"):
        TrafficClient("127.0.0.1:1", 7, participation_s=0)  # type: ignore[call-arg]  # the cluster says it
    with pytest.raises(ValueError, match="participation"):
        publish_participation("127.0.0.1:1", -1)
