"""Which handler serves an API in a version, and what is told of it."""

from __future__ import annotations

import pytest

from penstock.wire.registry import Handler, Registry, api


def handler(key: int, first: int, last: int, **options: object) -> Handler:
    return api(key, first, last, **options)(lambda: None)  # type: ignore[arg-type]


def test_nodes_and_clients_may_use_one_api_in_different_versions() -> None:
    for_clients = handler(1, 4, 12)
    for_nodes = handler(1, 17, 17, between_nodes=True)
    registry = Registry([for_nodes, for_clients])
    assert registry.find(1, 12) is for_clients
    assert registry.find(1, 17) is for_nodes
    assert registry.find(1, 16) is for_clients, "which refuses it"
    assert registry.find(1) is for_clients


def test_only_what_is_for_clients_is_told() -> None:
    registry = Registry(
        [
            handler(19, 2, 7, forwarded=True),
            handler(52, 2, 2, between_nodes=True),
            handler(0, 3, 9, advertised_from=0),
        ]
    )
    assert registry.advertised() == [(0, 0, 9), (19, 2, 7)]
    assert [each.key for each in registry] == [0, 19]
    found = registry.find(52, 2)
    assert found is not None
    assert found.between_nodes
    assert registry.find(52, 3) is None
    assert registry.find(7, 0) is None


@pytest.mark.parametrize("between_nodes", [False, True])
def test_two_handlers_for_the_same(between_nodes: bool) -> None:
    twice = [handler(1, 0, 1, between_nodes=between_nodes), handler(1, 2, 3, between_nodes=between_nodes)]
    with pytest.raises(ValueError, match="two handlers for API 1"):
        Registry(twice)
