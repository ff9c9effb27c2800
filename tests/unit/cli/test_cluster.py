from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli.cluster import merged_status, told_addresses
from penstock.cli.cluster_faults import find_node, require_local, send
from penstock.cli.offsets import Position
from penstock.cli.output import CommandFailed

TOLD: dict[str, Any] = {
    "cluster_id": "abc",
    "controller": 1001,
    "brokers": [
        {
            "id": 1,
            "host": "h",
            "port": 9092,
            "pid": 11,
            "state": "running",
            "roles": ["broker"],
            "rack": "north",
        },
        {
            "id": 2,
            "host": "h",
            "port": 9093,
            "pid": None,
            "state": "down",
            "roles": ["broker"],
            "rack": None,
        },
    ],
    "topics": [
        {
            "name": "t",
            "partitions": [
                {
                    "partition": 0,
                    "leader": 2,
                    "leader_epoch": 4,
                    "replicas": [1, 2],
                    "isr": [1, 2],
                    "high_watermark": 7,
                },
            ],
        }
    ],
    "nodes": [
        {"id": 1001, "pid": 13, "state": "running", "roles": ["controller"]},
        {"id": "supervisor", "pid": 10, "state": "running", "roles": ["supervisor"]},
    ],
}


def metadata() -> Any:
    """As librdkafka tells it: only brokers that live, and a controller that is a broker."""
    partition = SimpleNamespace(id=0, leader=2, replicas=[1, 2], isrs=[1, 2])
    return SimpleNamespace(
        cluster_id="abc",
        controller_id=1,
        brokers={1: SimpleNamespace(id=1, host="h", port=9092)},
        topics={"t": SimpleNamespace(partitions={0: partition})},
    )


def test_what_the_endpoint_adds() -> None:
    seen = merged_status(metadata(), TOLD, {})
    assert seen == TOLD


def test_what_brokers_say_themselves_is_newer() -> None:
    partition = merged_status(metadata(), TOLD, {("t", 0): Position(9, 5)})["topics"][0]["partitions"][0]
    assert (partition["high_watermark"], partition["leader_epoch"]) == (9, 5)


def test_without_an_endpoint() -> None:
    seen = merged_status(metadata(), {}, {}, {1: "north"})
    assert seen["controller"] == 1
    assert seen["brokers"] == [
        {
            "id": 1,
            "host": "h",
            "port": 9092,
            "pid": None,
            "state": "unknown",
            "roles": None,
            "rack": "north",
        }
    ]
    assert "nodes" not in seen


def test_where_brokers_that_run_listen() -> None:
    assert told_addresses(TOLD) == {"h:9092": True, "h:9093": False}
    assert told_addresses({}) == {}


@pytest.mark.parametrize(
    ("target", "pid"), [("1", 11), ("1001", 13), ("controller", 13), ("supervisor", 10), ("2", None)]
)
def test_whom_a_target_means(target: str, pid: int | None) -> None:
    assert find_node(TOLD, target)["pid"] == pid


@pytest.mark.parametrize(
    ("target", "told", "line"),
    [
        ("gateway", TOLD, "gateway: not part of this cluster"),
        ("3", TOLD, "node 3: not part of this cluster"),
        ("controller", TOLD | {"controller": None}, "there is no active controller"),
        ("leader:t", TOLD | {"brokers": []}, "no broker of the cluster is running"),
    ],
)
def test_targets_that_are_not_there(target: str, told: dict[str, Any], line: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        find_node(told, target)
    assert str(caught.value) == line


def test_signals_stay_on_this_machine() -> None:
    require_local("http://127.0.0.1:8080")
    with pytest.raises(CommandFailed, match="is not on this machine"):
        require_local("http://192.0.2.1:8080")


def test_no_signal_to_a_stranger() -> None:
    with pytest.raises(CommandFailed, match="process 1 is not node 7"):
        send(1, 0, "node 7")  # type: ignore[arg-type]
