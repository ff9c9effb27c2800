from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from penstock.supervisor.errors import SupervisorError
from penstock.supervisor.layout import (
    ClusterLayout,
    Wanted,
    layout_as_json,
    layout_from_json,
    new_layout,
    reconcile,
)

BOTH, BROKER, CONTROLLER = ("broker", "controller"), ("broker",), ("controller",)


def pick(count: int, taken: Collection[int]) -> list[int]:
    """Free ports of a machine where those from 30,000 on are free."""
    return [port for port in range(30_000, 30_100) if port not in taken][:count]


def made(**wanted: Any) -> ClusterLayout:
    return new_layout("abc", Wanted(**wanted), host="127.0.0.1", port=9092, pick=pick)


def again(layout: ClusterLayout, *, some_run: bool = False, **wanted: Any) -> ClusterLayout:
    return reconcile(layout, Wanted(**wanted), some_run=some_run, where="the folder", pick=pick)


def described(layout: ClusterLayout) -> list[tuple[int, tuple[str, ...], int]]:
    return [(node.id, node.roles, node.port) for node in layout.nodes]


@pytest.mark.parametrize(
    ("brokers", "roles"),
    [(1, [BOTH]), (2, [BOTH, BROKER]), (3, [BOTH] * 3), (5, [BOTH] * 3 + [BROKER] * 2)],
)
def test_the_first_brokers_are_controllers_too(brokers: int, roles: list[tuple[str, ...]]) -> None:
    layout = made(brokers=brokers)
    assert described(layout) == [(i + 1, each, 9092 + i) for i, each in enumerate(roles)]


def test_dedicated_controllers_have_ids_and_ports_of_their_own() -> None:
    layout = made(brokers=2, controllers=3, port=30_000)
    assert described(layout) == [
        (1, BROKER, 30_000),
        (2, BROKER, 30_001),
        (1001, CONTROLLER, 30_002),
        (1002, CONTROLLER, 30_003),
        (1003, CONTROLLER, 30_004),
    ]
    assert layout.kafka == "127.0.0.1:30000,127.0.0.1:30001"
    assert layout.voters == [f"{1001 + i}@127.0.0.1:{30_002 + i}" for i in range(3)]


def test_only_controllers_were_asked_for() -> None:
    assert described(made(controllers=1)) == [(1, BROKER, 9092), (1001, CONTROLLER, 30_000)]


def test_port_0_is_any_free_port() -> None:
    assert [node.port for node in made(brokers=2, port=0).nodes] == [30_000, 30_001]


def test_controllers_of_nodes_on_all_addresses_are_reached_by_the_loopback() -> None:
    assert made(brokers=2, host="0.0.0.0").voters == ["1@127.0.0.1:9092"]
    assert made(brokers=2, host="::").voters == ["1@[::1]:9092"]
    assert made(brokers=2, host="::1").kafka == "[::1]:9092,[::1]:9093"


@pytest.mark.parametrize(("brokers", "port"), [(3, 65_534), (1_001, 0)])
def test_what_does_not_fit(brokers: int, port: int) -> None:
    with pytest.raises(SupervisorError):
        made(brokers=brokers, port=port)


def test_brokers_stop_before_controllers() -> None:
    groups = [[node.id for node in group] for group in made(brokers=5).stop_order]
    assert groups == [[4, 5], [1, 2, 3]]


def test_the_same_again() -> None:
    layout = made(brokers=3, controllers=1, port=0)
    for some_run in (False, True):
        assert again(layout, some_run=some_run) == layout
        assert again(layout, some_run=some_run, brokers=3, controllers=1, port=0) == layout


def test_more_brokers_are_brokers_only() -> None:
    layout = again(made(brokers=2), brokers=4, some_run=True)
    assert described(layout) == [(1, BOTH, 9092), (2, BROKER, 9093), (3, BROKER, 9094), (4, BROKER, 9095)]


def test_more_brokers_take_other_ports_where_the_next_are_taken() -> None:
    layout = again(made(brokers=1, controllers=1, port=29_999), brokers=2)
    assert described(layout) == [(1, BROKER, 29_999), (2, BROKER, 30_001), (1001, CONTROLLER, 30_000)]
    scattered = made(brokers=2)
    scattered = replace(scattered, nodes=(replace(scattered.nodes[0], port=5), scattered.nodes[1]))
    assert [node.port for node in again(scattered, brokers=3).nodes] == [5, 9093, 30_000]


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ({"brokers": 2}, "the folder holds a cluster of 3 brokers; --brokers may only be more"),
        (
            {"controllers": 1},
            "the folder holds a cluster with no dedicated controllers; --controllers cannot change that",
        ),
    ],
)
def test_what_a_cluster_refuses_to_become(wanted: dict[str, int], line: str) -> None:
    with pytest.raises(SupervisorError) as caught:
        again(made(brokers=3), **wanted)
    assert str(caught.value) == line


def test_a_cluster_moves_only_as_a_whole() -> None:
    layout = made(brokers=2, controllers=1)
    moved = again(layout, port=10_000, host="::1")
    assert [(node.host, node.port) for node in moved.nodes] == [
        ("::1", 10_000),
        ("::1", 10_001),
        ("::1", 30_000),
    ]
    with pytest.raises(SupervisorError, match="are running on other addresses"):
        again(layout, port=10_000, some_run=True)


def test_a_broker_that_was_decommissioned() -> None:
    layout = made(brokers=5).without_broker(4)
    assert [node.id for node in layout.brokers] == [1, 2, 3, 5]
    assert layout.kafka == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094,127.0.0.1:9096"
    assert again(layout, brokers=4) == layout
    assert [node.port for node in again(layout, port=10_000).nodes] == [10_000, 10_001, 10_002, 10_004]
    assert layout_from_json(json.loads(json.dumps(layout_as_json(layout)))) == layout


def test_the_id_of_a_decommissioned_broker_is_not_used_again() -> None:
    layout = made(brokers=4).without_broker(4)
    assert described(again(layout, brokers=4))[-1] == (5, BROKER, 9096)
    dedicated = made(brokers=3, controllers=1).without_broker(3)
    assert [node.id for node in again(dedicated, brokers=4).nodes] == [1, 2, 4, 5, 1001]


def test_a_decommissioned_broker_that_is_a_controller_stays_one() -> None:
    layout = made(brokers=4).without_broker(2)
    assert described(layout) == [
        (1, BOTH, 9092),
        (2, CONTROLLER, 9093),
        (3, BOTH, 9094),
        (4, BROKER, 9095),
    ]
    assert layout.voters == made(brokers=4).voters
    assert described(again(layout, brokers=4))[-1] == (5, BROKER, 9096)
    assert layout_from_json(json.loads(json.dumps(layout_as_json(layout)))) == layout


def racks_of(layout: ClusterLayout) -> list[str | None]:
    return [layout.rack_of(node) for node in layout.nodes]


def test_brokers_stand_in_racks_in_turn() -> None:
    layout = made(brokers=3, controllers=1, racks=("a", "b"))
    assert racks_of(layout) == ["a", "b", "a", None]
    assert layout_from_json(json.loads(json.dumps(layout_as_json(layout)))) == layout
    assert racks_of(again(layout, brokers=5)) == ["a", "b", "a", "b", "a", None]
    assert racks_of(made(brokers=2)) == [None, None]


def test_another_choice_of_racks_replaces_the_one_before() -> None:
    layout = made(brokers=3, racks=("a", "b"))
    assert again(layout) == again(layout, racks=("a", "b"), some_run=True) == layout
    assert racks_of(again(layout, racks=("x", "y", "z"))) == ["x", "y", "z"]
    assert again(layout, racks=()) == made(brokers=3)
    with pytest.raises(SupervisorError, match="are running in other racks"):
        again(layout, racks=("x",), some_run=True)


def test_there_and_back_through_json() -> None:
    layout = made(brokers=3, controllers=3)
    assert layout_from_json(json.loads(json.dumps(layout_as_json(layout)))) == layout


@pytest.mark.parametrize(
    "nodes",
    [
        None,
        [],
        [{"id": 1}],
        [{"id": 1, "roles": ["broker"], "host": "h", "port": 1}],
        [{"id": 1, "roles": ["broker", "cook"], "host": "h", "port": 1}],
        [{"id": 1, "roles": ["broker", "controller"], "host": "h", "port": 0}],
        [{"id": 1, "roles": ["broker", "controller"], "host": "h", "port": 1}] * 2,
        [{"id": "x", "roles": ["broker", "controller"], "host": "h", "port": 1}],
    ],
)
def test_a_damaged_record_of_a_cluster(nodes: Any) -> None:
    with pytest.raises(ValueError):
        layout_from_json({"cluster_id": "abc", "nodes": nodes})
