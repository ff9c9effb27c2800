"""The commands of those pages of the docs that start Spark; see test_docs.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.docs_pages import run_page, with_commands

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", with_commands(on_spark=True))
def test_the_commands_of_a_page(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)
