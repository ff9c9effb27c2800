"""Consumer groups: members of every client joining and leaving, eager and cooperative, static."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.compat.clients import run_kcat
from tests.compat.members import MEMBERS, Group, Place
from tests.support.raw import DESCRIBE_GROUPS, RawClient, make_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 6


class Source:
    """Writes to all partitions and knows all it wrote."""

    def __init__(self, raw: RawClient, topic: str) -> None:
        self._raw, self._topic = raw, topic
        self.written: set[Place] = set()

    def write(self, per_partition: int = 5) -> None:
        for partition in range(PARTITIONS):
            answer = self._raw.produce(self._topic, make_batch([b"x"] * per_partition), partition=partition)
            self.written |= {(partition, answer.base_offset + index) for index in range(per_partition)}


@pytest.fixture
def source(raw: RawClient, topic: str) -> Source:
    raw.create_topic(topic, partitions=PARTITIONS)
    return Source(raw, topic)


@pytest.fixture
def members(bootstrap: str, topic: str, group: str, source: Source) -> Iterator[Group]:
    with Group(bootstrap, topic, group, PARTITIONS) as members:
        yield members


@pytest.mark.parametrize(
    ("client", "cooperative"),
    [
        ("confluent-kafka", False),
        ("confluent-kafka", True),
        ("kafka-python", False),
        ("kafka-python", True),
        ("aiokafka", False),
    ],
)
def test_members_join_and_leave(source: Source, members: Group, client: str, cooperative: bool) -> None:
    first = members.join(client, cooperative=cooperative)
    source.write()
    members.wait_balanced()
    second = members.join(client, cooperative=cooperative)
    source.write()
    members.wait_balanced()
    third = members.join(client, cooperative=cooperative)
    source.write()
    members.wait_balanced()
    members.leave(second)
    source.write()
    members.wait_balanced()
    members.leave(first)
    fourth = members.join(client, cooperative=cooperative)
    source.write()
    members.wait_balanced()
    members.wait_committed(source.written)
    assert members.members == [third, fourth]


def test_members_of_different_clients_in_one_group(source: Source, members: Group) -> None:
    """Leaders change, so each client computes assignments for the others in turn."""
    for client in MEMBERS:
        members.join(client)
    source.write()
    members.wait_balanced()
    source.write()
    while len(members.members) > 1:
        members.leave(members.members[0])
        source.write()
        members.wait_balanced()
    members.wait_committed(source.written)


def test_many_members_at_once(source: Source, members: Group) -> None:
    for index in range(PARTITIONS):
        members.join("confluent-kafka", cooperative=False)
        source.write(index + 1)
    members.wait_balanced()
    members.wait_committed(source.written)
    assert {len(member.assignment) for member in members.members} == {1}


@pytest.mark.parametrize("client", MEMBERS)
def test_a_static_member_restarts_without_a_rebalance(source: Source, members: Group, client: str) -> None:
    stays = members.join(client, instance="stays")
    restarts = members.join(client, instance="restarts")
    source.write()
    members.wait_balanced()
    members.wait_committed(source.written)
    owned, rebalances = restarts.assignment, stays.rebalances

    members.leave(restarts)
    source.write()
    again = members.join(client, instance="restarts")
    members.wait_balanced()
    members.wait_committed(source.written)
    assert again.assignment == owned
    assert stays.rebalances == rebalances


def test_a_described_group(raw: RawClient, group: str, topic: str, source: Source, members: Group) -> None:
    members.join("confluent-kafka")
    members.join("confluent-kafka", instance="static")
    members.wait_balanced()

    def described() -> object:
        [answer] = raw.request(DESCRIBE_GROUPS, 5, {"groups": [group]}).groups
        return answer if answer.group_state == "Stable" else None

    answer = wait_until(described, "a stable group")
    assert (answer.protocol_type, answer.protocol_data) == ("consumer", "range")
    assert {member.group_instance_id for member in answer.members} == {None, "static"}
    assert {member.client_id for member in answer.members} == {"rdkafka"}
    assert all(topic.encode() in member.member_assignment for member in answer.members)

    for member in list(members.members):
        members.leave(member)
    # A static member leaves nobody behind who could say goodbye for it: it stays until its session ends.
    [answer] = raw.request(DESCRIBE_GROUPS, 5, {"groups": [group]}).groups
    assert [member.group_instance_id for member in answer.members] == ["static"]


@pytest.mark.needs("kcat")
def test_a_group_of_kcat(raw: RawClient, bootstrap: str, topic: str, group: str) -> None:
    raw.create_topic(topic, partitions=2)
    raw.produce(topic, make_batch([b"a", b"b"]), partition=0)
    raw.produce(topic, make_batch([b"c"]), partition=1)

    def run() -> list[str]:
        options = ("-X", "auto.offset.reset=earliest", "-f", "%p:%o:%s\\n")
        return sorted(run_kcat("-b", bootstrap, "-G", group, *options, "-e", "-q", topic).splitlines())

    assert run() == ["0:0:a", "0:1:b", "1:0:c"]
    raw.produce(topic, make_batch([b"d"]), partition=1)
    assert run() == ["1:1:d"]
