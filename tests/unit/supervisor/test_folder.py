from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.supervisor.folder import NodeFolder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("settings", "keeps"),
    [
        ("", True),
        ('storage = "file"', True),
        ('storage = "postgresql://x"', True),
        ('storage = "memory"', False),
    ],
)
def test_whether_a_node_that_is_ended_has_its_data_when_it_returns(
    tmp_path: Path, settings: str, keeps: bool
) -> None:
    (tmp_path / "node.toml").write_text(f"id = 1\n{settings}\n")
    assert NodeFolder(tmp_path).keeps_its_data() is keeps
