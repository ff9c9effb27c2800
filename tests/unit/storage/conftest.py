"""One fixture for every backend: tests that take `storage` run once on each."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from penstock.storage import FileStorage, MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.storage import Storage


@pytest.fixture(params=["file", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    opened: Storage
    if request.param == "file":
        opened = FileStorage.open(tmp_path / "data", 1)
    else:
        opened = MemoryStorage(UUID(int=1))
    yield opened
    opened.close()
