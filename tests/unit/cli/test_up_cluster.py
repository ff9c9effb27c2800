from __future__ import annotations

from pathlib import Path

import pytest
import typer

from penstock.cli.node_file import read_node_file
from penstock.cli.output import CommandFailed
from penstock.cli.up_cluster import is_meant, parse_racks, shared_table


@pytest.mark.parametrize(
    ("brokers", "controllers", "meant"),
    [(None, None, False), (1, None, False), (2, None, True), (1, 1, True), (None, 1, True)],
)
def test_when_a_cluster_is_meant(
    tmp_path: Path, brokers: int | None, controllers: int | None, meant: bool
) -> None:
    assert is_meant(tmp_path, brokers, controllers) is meant
    (tmp_path / "cluster.json").touch()
    assert is_meant(tmp_path, brokers, controllers)


def test_what_all_nodes_are_told(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text(
        'listeners = "127.0.0.1:1"\ndata = "x"\nhttp_port = 5\nlog_level = "debug"\nflush = "commit"\n'
        '[topics]\n"retention.ms" = 5\n"compression.type" = "lz4"\n[limits]\nconnections_max = 7\n'
    )
    settings = read_node_file(file) | {"flush": "os", "host": "::"}
    assert shared_table(file, settings) == {
        "log_level": "debug",
        "flush": "os",
        "topics": {"retention.ms": "5", "compression.type": "lz4"},
        "limits": {"connections_max": 7},
    }
    assert shared_table(None, {"storage": "memory"}) == {"storage": "memory"}


def test_what_belongs_to_one_node(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text("id = 3\n")
    with pytest.raises(CommandFailed, match="id: belongs to one node"):
        shared_table(file, read_node_file(file))


def test_racks() -> None:
    assert parse_racks(None) is None
    assert parse_racks("") == ()
    assert parse_racks("north, south") == ("north", "south")
    for text in (",", "north,", "x" * 256):
        with pytest.raises(typer.BadParameter, match="not a name of 1 to 255 characters"):
            parse_racks(text)
