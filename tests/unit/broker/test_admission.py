"""Who gets in when there are more than there are places."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.admission import Admission, node_called
from penstock.config import Limits


class Someone:
    def __init__(self, admission: Admission, host: str = "192.0.2.1") -> None:
        self.state = self
        self.client_host = host
        self.has_given_way = False
        self._admission: Any = admission
        self.refusal = self._admission.refusal(self)

    def give_way(self) -> None:
        self.has_given_way = True
        self._admission.forget(self)


def admission(clients: int = 3, reserved: int = 2, per_address: int = 100, places: int = 1_000) -> Any:
    limits = Limits(
        connections_max=clients, connections_reserved=reserved, connections_per_address_max=per_address
    )
    return Admission(limits, places)


def test_clients_have_their_places_and_then_a_trial() -> None:
    places = admission()
    clients = [Someone(places) for _ in range(3)]
    assert not any(each.refusal or places.is_on_trial(each) for each in clients)
    late = Someone(places)
    assert late.refusal is None
    assert places.is_on_trial(late)
    places.forget(clients[0])
    assert not places.is_on_trial(Someone(places))


def test_a_reserve_may_be_larger_than_what_clients_have() -> None:
    places = admission(clients=3, reserved=10)
    crowd = [Someone(places) for _ in range(4)]
    assert [places.is_on_trial(each) for each in crowd] == [False, False, False, True]


def test_a_crowd_does_not_hold_the_places_for_trials() -> None:
    places = admission()
    crowd = [Someone(places) for _ in range(20)]
    assert [each.has_given_way for each in crowd] == [False] * 3 + [True] * 15 + [False] * 2
    assert len(places) == len(set(places)) == 5


def test_nodes_keep_their_places_until_all_are_theirs() -> None:
    places = admission()
    clients = [Someone(places) for _ in range(3)]
    nodes = [Someone(places) for _ in range(2)]
    for node in nodes:
        places.passed(node)
    late = Someone(places)
    assert late.refusal == "5 are open"
    assert not any(each.has_given_way for each in (*clients, *nodes))
    places.forget(nodes[0])
    assert Someone(places).refusal is None


def test_an_address_has_no_more_than_its_share_and_nodes_of_it_get_in_all_the_same() -> None:
    places = admission(clients=10, per_address=2)
    first = [Someone(places) for _ in range(2)]
    third = Someone(places)
    assert places.is_on_trial(third)
    assert not places.is_on_trial(Someone(places, "192.0.2.2"))
    places.forget(first[0])
    places.forget(third)
    assert not places.is_on_trial(Someone(places))


def test_without_a_reserve_they_are_refused() -> None:
    places = admission(clients=1, reserved=0, per_address=1)
    assert Someone(places).refusal is None
    assert Someone(places).refusal == "1 of that address are open"
    assert Someone(places, "192.0.2.2").refusal == "1 are open"


def test_the_system_may_allow_fewer() -> None:
    places = admission(clients=100, reserved=10, places=20)
    crowd = [Someone(places) for _ in range(30)]
    assert sum(places.is_on_trial(each) for each in crowd) == 10
    assert len(places) == 20


def test_who_was_refused_is_forgotten_without_harm() -> None:
    places = admission(clients=1, reserved=0)
    Someone(places)
    places.forget(Someone(places))
    assert len(places) == 1


@pytest.mark.parametrize(
    ("client_id", "node"),
    [
        ("penstock-node-7", 7),
        ("penstock-node-", None),
        ("penstock-node--1", None),
        ("rdkafka", None),
        ("7", None),
    ],
)
def test_how_nodes_call_themselves(client_id: str, node: int | None) -> None:
    assert node_called(client_id) == node
