"""One broker for the whole ring, and names that no other test uses.

With PENSTOCK_COMPAT_BOOTSTRAP=host:port the ring runs against that broker, Apache Kafka for example: what
passes there and fails here is a bug of Penstock. The tests of `test_restart.py` always start their own.
"""

from __future__ import annotations

import uuid
import warnings
from typing import TYPE_CHECKING

import pytest

from tests.support.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python deprecated; warnings are errors here.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401


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
