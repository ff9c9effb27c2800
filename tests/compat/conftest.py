"""One broker for the whole ring, and names that no other test uses.

With PENSTOCK_COMPAT_BOOTSTRAP=host:port the ring runs against that broker, Apache Kafka for example: what
passes there and fails here is a bug of Penstock. The tests of `test_restart.py` always start their own.
"""

from __future__ import annotations

import gc
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kafka_python import DROPS_SOCKETS
from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(DROPS_SOCKETS)


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """So that no other file finds what a client of this one has dropped."""
    yield
    gc.collect()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name for a topic that no other test uses; the test creates it, or its client does."""
    return unique(request.node.originalname)


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return unique(request.node.originalname)


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"
