from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.supervisor.folder import ClusterFolder
from penstock.supervisor.layout import ClusterLayout, NodeSpec
from penstock.supervisor.node_files import toml, write_node_files

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.one_of(TEXTS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
VALUES = st.one_of(PLAIN, st.lists(PLAIN, max_size=3), st.dictionaries(TEXTS, PLAIN, max_size=3))


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
def test_what_is_written_is_read_again(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml(table)) == table


def test_what_has_no_place_in_it() -> None:
    with pytest.raises(TypeError):
        toml({"a": object()})


def test_the_files_of_a_cluster(tmp_path: Path) -> None:
    layout = ClusterLayout(
        "abc",
        (
            NodeSpec(1, ("broker",), "127.0.0.1", 9092),
            NodeSpec(1001, ("controller",), "127.0.0.1", 30_000),
        ),
        racks=("north",),
    )
    folder = ClusterFolder(tmp_path)
    write_node_files(folder, layout, {"flush": "os", "topics": {"retention.ms": "5"}})
    assert tomllib.loads(folder.node(1).settings.read_text()) == {
        "id": 1,
        "roles": ["broker"],
        "listeners": "127.0.0.1:9092",
        "controllers": ["1001@127.0.0.1:30000"],
        "data": f"{tmp_path}/node-1/data",
        "cluster_id": "abc",
        "supervisor": str(tmp_path),
        "http_port": 0,
        "rack": "north",
        "flush": "os",
        "topics": {"retention.ms": "5"},
    }
    controller = tomllib.loads(folder.node(1001).settings.read_text())
    assert controller["roles"] == ["controller"]
    assert "rack" not in controller
