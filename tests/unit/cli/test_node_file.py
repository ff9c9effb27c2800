from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.node_file import NodeFileError, node_settings, read_node_file
from penstock.config import Limits, NodeConfig

FULL = """
id = 3
roles = ["controller", "broker"]
listeners = "0.0.0.0:9192"
advertised = ["broker-3.example.org:19092"]
controllers = ["3@broker-3.example.org:9093"]
data = "/var/lib/penstock"
storage = "file"
flush = "os"
log_level = "warning"
rack = "north"
http_port = 8180
auto_create_topics = false
offsets_topic_partitions = 8

[topics]
"retention.ms" = 1000
"cleanup.policy" = ["compact", "delete"]
"preallocate" = false

[limits]
connections_max = 7
"""


def test_every_key_reaches_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(FULL)
    assert NodeConfig(**read_node_file(path)) == NodeConfig(
        node_id=3,
        host="0.0.0.0",
        port=9192,
        advertised_host="broker-3.example.org",
        advertised_port=19092,
        rack="north",
        data=Path("/var/lib/penstock"),
        storage="file",
        flush="os",
        http_port=8180,
        auto_create_topics=False,
        offsets_topic_partitions=8,
        topic_defaults={"retention.ms": "1000", "cleanup.policy": "compact,delete", "preallocate": "false"},
        limits=Limits(connections_max=7),
        log_level="warning",
    )


def test_an_empty_file_is_all_defaults() -> None:
    assert NodeConfig(**node_settings({})) == NodeConfig()


def test_the_endpoint_can_be_switched_off() -> None:
    assert node_settings({"http_port": False}) == {"http_port": None}


def test_an_ipv6_address() -> None:
    assert node_settings({"listeners": "[::1]:9092"}) == {"host": "::1", "port": 9092}


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"idd": 1}, "unknown key 'idd'"),
        ({"id": 0}, "id: 0 is less than 1"),
        ({"id": True}, "id: True is not a whole number"),
        ({"id": "one"}, "id: 'one' is not a whole number"),
        ({"listeners": "localhost"}, "listeners: 'localhost' is not of the form host:port"),
        ({"listeners": "a:70000"}, "listeners: 'a:70000' is not of the form host:port"),
        ({"listeners": ["a:1", "b:2"]}, "listeners: more than one address is not available yet"),
        ({"roles": ["king"]}, "roles: ['king'] is not a list of broker and controller"),
        ({"roles": ["broker"]}, "roles: a node with only one of the roles is not available yet"),
        ({"controllers": ["a:1"]}, "controllers: 'a:1' is not of the form id@host:port"),
        ({"controllers": ["1@a:1", "2@b:1"]}, "controllers: more than one controller is not available yet"),
        ({"storage": "postgresql://x"}, "storage: the PostgreSQL backend is not available yet"),
        ({"storage": "tape"}, "storage: 'tape' is not one of file, memory"),
        ({"flush": "later"}, "flush: 'later' is not one of commit, os"),
        ({"log_level": "loud"}, "log_level: 'loud' is not one of"),
        ({"http_port": 70_000}, "http_port: 70000 is not a port"),
        ({"auto_create_topics": "yes"}, "auto_create_topics: 'yes' is not true or false"),
        ({"topics": {"retention": {"ms": 1}}}, "topics: retention: a table"),
        ({"limits": {"connections": 1}}, "limits: unknown limit 'connections'"),
        ({"limits": {"connections_max": 0}}, "limits: 0 is less than 1"),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, object], complaint: str) -> None:
    with pytest.raises(NodeFileError) as caught:
        node_settings(table)
    assert str(caught.value).startswith(complaint)


def test_a_file_that_is_missing_or_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    with pytest.raises(NodeFileError, match="No such file"):
        read_node_file(path)
    path.write_text("id = ")
    with pytest.raises(NodeFileError, match=r"node\.toml: "):
        read_node_file(path)
    path.write_bytes(b"\xff")
    with pytest.raises(NodeFileError, match="not UTF-8"):
        read_node_file(path)
