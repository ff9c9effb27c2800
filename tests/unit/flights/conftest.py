from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.flights.fake_gateway import FakeFlights
from tests.unit.flights.tables import Tables, write_tables


@pytest.fixture
def gateway() -> Iterator[FakeFlights]:
    with FakeFlights() as fake:
        yield fake


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Itineraries of four chunks."""
    return write_tables(tmp_path, 40_000)
