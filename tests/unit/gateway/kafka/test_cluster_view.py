"""Whom a reader asks for a partition."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.gateway.kafka.cluster_view import (
    NoLeaderError,
    PartitionView,
    PreferredReplicas,
    TopicView,
    is_outdated,
    route_to,
)
from penstock.gateway.kafka.errors import UnknownPartitionError
from penstock.gateway.kafka.metadata import parse_bootstrap
from penstock.peers.peers import Address

ID, OTHER_ID = UUID(int=7), UUID(int=8)
BROKERS = {1: Address("a", 1), 2: Address("b", 2), 3: Address("c", 3)}


def topic(
    leader: int = 1, epoch: int = 5, in_sync: tuple[int, ...] = (1, 2), topic_id: UUID | None = ID
) -> TopicView:
    return TopicView("t", topic_id, {0: PartitionView(leader, epoch, (1, 2, 3), in_sync)}, seen_at=0.0)


def test_the_leader_is_asked_with_its_epoch() -> None:
    route = route_to(topic(), 0, BROKERS, None)
    assert (route.node_id, route.address, route.leader_epoch, route.is_leader) == (1, BROKERS[1], 5, True)


def test_a_preferred_follower_is_asked_without_an_epoch() -> None:
    route = route_to(topic(), 0, BROKERS, 2)
    assert (route.node_id, route.leader_epoch, route.is_leader) == (2, -1, False)


@pytest.mark.parametrize("preferred", [3, 9])
def test_a_follower_out_of_sync_or_unknown_is_not_asked(preferred: int) -> None:
    assert route_to(topic(), 0, BROKERS, preferred).node_id == 1


def test_without_a_leader_there_is_no_route() -> None:
    with pytest.raises(NoLeaderError, match="has no leader"):
        route_to(topic(leader=-1), 0, BROKERS, None)
    with pytest.raises(NoLeaderError, match="broker 9"):
        route_to(topic(leader=9), 0, BROKERS, None)


def test_a_partition_that_is_not_there() -> None:
    with pytest.raises(UnknownPartitionError, match="no partition 4"):
        route_to(topic(), 4, BROKERS, None)


def test_a_recommendation_ends() -> None:
    preferred = PreferredReplicas(seconds_max=60)
    preferred.prefer("t", 0, 2, now=100)
    assert preferred.of("t", 0, now=159) == 2
    assert preferred.of("t", 1, now=159) is None
    assert preferred.of("t", 0, now=160) is None
    preferred.prefer("t", 0, 2, now=200)
    preferred.forget("t", 0)
    assert preferred.of("t", 0, now=201) is None


def test_brokers_that_are_behind_are_not_believed() -> None:
    assert is_outdated(topic(epoch=5), topic(epoch=4))
    assert not is_outdated(topic(epoch=5), topic(epoch=5))
    assert not is_outdated(None, topic(epoch=4))
    # A topic that was created again begins with its epochs anew.
    assert not is_outdated(topic(epoch=5), topic(epoch=0, topic_id=OTHER_ID))
    assert not is_outdated(topic(epoch=5, topic_id=None), topic(epoch=0, topic_id=None))


def test_bootstrap_addresses() -> None:
    assert parse_bootstrap("a:1, b:2") == [Address("a", 1), Address("b", 2)]
    assert parse_bootstrap("host") == [Address("host", 9092)]
    assert parse_bootstrap("[::1]:7,[::1]") == [Address("::1", 7), Address("::1", 9092)]
    for wrong in ("", ",", "a:x", "a:0", ":9", "a:70000"):
        with pytest.raises(ValueError):
            parse_bootstrap(wrong)
