from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.node_file import NodeFileError, node_settings, read_node_file
from penstock.cli.output import CommandFailed
from penstock.config import ClusterLimits, Limits, NodeConfig

FULL = """
id = 3
roles = ["controller", "broker"]
listeners = "0.0.0.0:9192"
advertised = ["broker-3.example.org:19092"]
controllers = ["3@broker-3.example.org:9093", "5@broker-5.example.org:9093"]
cluster_id = "north-cluster_1"
supervisor = "/var/lib/cluster"
data = "/var/lib/penstock"
storage = "file"
flush = "os"
log_level = "warning"
rack = "north"
insecure = true
http_host = "0.0.0.0"
http_port = 8180
http_names = ["node-1.example"]
auto_create_topics = false
offsets_topic_partitions = 8
retention_check_ms = 1000
compaction_check_ms = 2000
high_watermark_checkpoint_ms = 3000
repair_check_ms = 5000
scrub_interval_ms = 4000
scrub_bytes_per_second = 100000

[topics]
"retention.ms" = 1000
"cleanup.policy" = ["compact", "delete"]
"preallocate" = false

[limits]
connections_max = 7

[cluster]
broker_session_ms = 900
replica_fetch_bytes_max = 65536
"""


def test_every_key_reaches_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(FULL)
    assert NodeConfig(**read_node_file(path)) == NodeConfig(
        node_id=3,
        roles=frozenset({"broker", "controller"}),
        controllers={3: ("broker-3.example.org", 9093), 5: ("broker-5.example.org", 9093)},
        cluster_id="north-cluster_1",
        supervisor=Path("/var/lib/cluster"),
        cluster=ClusterLimits(broker_session_ms=900, replica_fetch_bytes_max=65_536),
        host="0.0.0.0",
        port=9192,
        advertised_host="broker-3.example.org",
        advertised_port=19092,
        rack="north",
        data=Path("/var/lib/penstock"),
        storage="file",
        flush="os",
        insecure=True,
        http_host="0.0.0.0",
        http_port=8180,
        http_names=("node-1.example",),
        auto_create_topics=False,
        offsets_topic_partitions=8,
        retention_check_ms=1_000,
        compaction_check_ms=2_000,
        high_watermark_checkpoint_ms=3_000,
        repair_check_ms=5_000,
        scrub_interval_ms=4_000,
        scrub_bytes_per_second=100_000,
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
        ({"id": -1}, "id: -1 is not between 0 and 2147483647"),
        ({"id": 2**31}, "id: 2147483648 is not between 0 and 2147483647"),
        ({"id": True}, "id: True is not a whole number"),
        ({"id": "one"}, "id: 'one' is not a whole number"),
        ({"listeners": "localhost"}, "listeners: 'localhost' is not of the form host:port"),
        ({"listeners": "a:70000"}, "listeners: 'a:70000' is not of the form host:port"),
        ({"listeners": ["a:1", "b:2"]}, "listeners: more than one address is not available yet"),
        ({"listeners": "a\0b:1"}, "listeners: 'a\\x00b:1' is not of the form host:port"),
        ({"listeners": f"a:{'9' * 5_000}"}, "listeners: 'a:9"),
        ({"advertised": "a:0"}, "advertised: 'a:0' has no port to connect to"),
        ({"data": ""}, "data: '' is not a path"),
        ({"data": "~no-such-user/x"}, "data: '~no-such-user/x': "),
        ({"rack": ""}, "rack: not a name of 1 to 255 characters"),
        ({"offsets_topic_partitions": 1_001}, "offsets_topic_partitions: 1001 is not between 1 and 1000"),
        ({"retention_check_ms": 1}, "retention_check_ms: 1 is not between 100 and"),
        ({"roles": [[1]]}, "roles: [[1]] is not a list of broker and controller"),
        ({"roles": [1]}, "roles: [1] is not a list of broker and controller"),
        ({"roles": ["king"]}, "roles: ['king'] is not a list of broker and controller"),
        ({"roles": []}, "roles: [] is not a list of broker and controller"),
        ({"roles": "broker"}, "roles: 'broker' is not a list of roles"),
        ({"controllers": ["a:1"]}, "controllers: 'a:1' is not of the form id@host:port"),
        ({"controllers": "1@a:1"}, "controllers: '1@a:1' is not a list of id@host:port"),
        ({"controllers": ["x@a:1"]}, "controllers: 'x@a:1' is not of the form id@host:port"),
        ({"controllers": [f"{2**31}@a:1"]}, "controllers: '2147483648@a:1' is not of the form id@host:port"),
        ({"controllers": ["1@a:0"]}, "controllers: 'a:0' has no port to connect to"),
        ({"controllers": ["1@a:1", "1@b:1"]}, "controllers: controller 1 is named twice"),
        ({"cluster_id": "a b"}, "cluster_id: 'a b' is not a name of letters, digits, - and _"),
        ({"cluster_id": ""}, "cluster_id: '' is not a name of letters, digits, - and _"),
        ({"supervisor": ""}, "supervisor: '' is not a path"),
        ({"cluster": {"session_ms": 1}}, "cluster: unknown limit 'session_ms'"),
        (
            {"cluster": {"controller_election_ms_min": 3000}},
            "cluster: controller_election_ms_min: it is more than controller_election_ms_max",
        ),
        ({"cluster": {"broker_session_ms": 1}}, "cluster: broker_session_ms: 1 is not between 100 and"),
        (
            {"storage": "mysql://me:secret@x"},
            "storage: an address has to be of the form postgresql://user@host",
        ),
        ({"storage": "postgresql://x\n"}, "storage: an address has to be of the form postgresql://user@host"),
        ({"storage": "tape"}, "storage: 'tape' is not one of file, memory"),
        ({"flush": "later"}, "flush: 'later' is not one of commit, os"),
        ({"log_level": "loud"}, "log_level: 'loud' is not one of"),
        ({"http_host": "a b"}, "http_host: 'a b' is not a name or an address"),
        ({"http_names": "a"}, "http_names: 'a' is not a list of names"),
        ({"http_port": 70_000}, "http_port: 70000 is not between 0 and 65535"),
        ({"auto_create_topics": "yes"}, "auto_create_topics: 'yes' is not true or false"),
        ({"topics": {"retention": {"ms": 1}}}, "topics: retention: a table"),
        ({"topics": {"nonsense": 1}}, "topics: Unknown topic config name: nonsense"),
        ({"topics": {"retention.ms": "soon"}}, "topics: Invalid value soon for configuration retention.ms"),
        ({"topics": {"num.partitions": 0}}, "topics: Invalid value 0 for configuration num.partitions"),
        ({"topics": {"num.partitions": 10_001}}, "topics: num.partitions: more than 10000"),
        ({"limits": {"connections": 1}}, "limits: unknown limit 'connections'"),
        ({"limits": {"connections_max": 0}}, "limits: connections_max: 0 is not between 1 and"),
        ({"limits": {"connections_max": "all"}}, "limits: connections_max: 'all' is not a whole number"),
        ({"limits": {"frame_bytes_max": 65_535}}, "limits: frame_bytes_max: 65535 is not between 65536 and"),
        ({"limits": {"idle_ms_max": 1}}, "limits: idle_ms_max: 1 is not between 100 and 2147483647"),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, object], complaint: str) -> None:
    with pytest.raises(NodeFileError) as caught:
        node_settings(table)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('roles = ["broker"]', "controllers: a node that is none itself needs at least one"),
        (
            'id = 4\nroles = ["broker"]\ncontrollers = ["4@a:1"]',
            "controllers: node 4 is in the list, and has not the role",
        ),
        ('controllers = ["2@a:1", "3@b:1"]', "controllers: node 1 has the role, and is not in the list"),
    ],
)
def test_roles_and_controllers_must_fit_together(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(NodeFileError) as caught:
        read_node_file(path)
    assert str(caught.value) == f"{path}: {complaint}"


@pytest.mark.parametrize(
    ("text", "roles", "is_alone"),
    [
        ("", (True, True), True),
        ('controllers = ["1@a:1"]', (True, True), False),  # others may list it, too
        ('controllers = ["1@a:1", "2@b:1"]', (True, True), False),
        ('id = 3\nroles = ["broker"]\ncontrollers = ["1@a:1"]', (True, False), False),
        ('roles = ["controller"]\ncontrollers = ["1@a:1"]', (False, True), False),
    ],
)
def test_what_a_node_is(tmp_path: Path, text: str, roles: tuple[bool, bool], is_alone: bool) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    config = NodeConfig(**read_node_file(path))
    assert (config.is_broker, config.is_controller) == roles
    assert config.is_alone is is_alone


def test_a_file_that_is_missing_or_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    with pytest.raises(NodeFileError, match="No such file"):
        read_node_file(path)
    path.write_text("id = ")
    with pytest.raises(NodeFileError, match=r"node\.toml: "):
        read_node_file(path)
    path.write_text(f"id = {'9' * 5_000}")
    with pytest.raises(NodeFileError, match=r"node\.toml: "):
        read_node_file(path)
    path.write_text("id = " + "[" * 100_000)
    with pytest.raises(NodeFileError, match="nested too deeply"):
        read_node_file(path)
    path.write_bytes(b"\xff")
    with pytest.raises(NodeFileError, match="not UTF-8"):
        read_node_file(path)


def test_limits_of_groups(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("[groups]\ngroup_size_max = 7\ninitial_rebalance_delay_ms = 0\n")
    groups = read_node_file(file)["groups"]
    assert (groups.group_size_max, groups.initial_rebalance_delay_ms) == (7, 0)
    file.write_text("[groups]\ngroup_size = 7\n")
    with pytest.raises(CommandFailed, match="unknown limit 'group_size'"):
        read_node_file(file)
