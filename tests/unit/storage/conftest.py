"""One fixture for every backend: tests that take `storage` run once on each."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from penstock.storage import FileStorage, MemoryStorage
from penstock.storage.postgres import PostgresStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.storage import Storage
    from tests.support.postgres import PostgresProcess

NODE_IDS = count(1)
"""Nodes do not see each other's rows, so a test with a node of its own has an empty database."""


@pytest.fixture(params=["file", "memory", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    opened: Storage
    if request.param == "file":
        opened = FileStorage.open(tmp_path / "data", 1)
    elif request.param == "memory":
        opened = MemoryStorage(UUID(int=1))
    else:
        server: PostgresProcess = request.getfixturevalue("postgres")
        opened = PostgresStorage.open(server.url(), next(NODE_IDS))
    yield opened
    opened.close()
