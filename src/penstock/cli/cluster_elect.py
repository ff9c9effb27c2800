"""`penstock cluster elect`: who leads, by hand.

Leadership goes back to the preferred replicas by Kafka's ElectLeaders. That request has no field for a
leader that somebody wants, so the wanted one is made the preferred one first: its partition gets the replicas
that it has, in another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from penstock.cli.cluster_reassignments import Failures, Reassignments, Replicas, ids, require_all
from penstock.cli.kafka import cluster_metadata, connect, require_partitions
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json, split_partition
from penstock.cli.output import Cell, CommandFailed, confirm, counted, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NO_LEADER = -1


class Election(NamedTuple):
    partition: int
    leader: int | None
    new_leader: int
    why: str
    is_possible: bool
    order: Replicas | None = None
    """The replicas as they have to be first, if they are not yet."""


def elect(
    wanted: Annotated[str, typer.Argument(metavar="TOPIC[:PARTITION]", help="What gets another leader.")],
    leader: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="ID", help="The broker that leads from now on, also as the preferred replica."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Give leadership back to the preferred replicas, or to one broker."""
    topic, number = split_partition(wanted)
    admin = connect(bootstrap)
    metadata = cluster_metadata(admin, bootstrap)
    chosen = require_partitions(metadata, topic, number)
    if leader is not None and leader not in metadata.brokers:
        raise CommandFailed(f"no broker {leader} is running")
    reassignments = Reassignments(admin, bootstrap, topic)
    moving = reassignments.ongoing(chosen) if leader is not None else {}
    partitions = {index: metadata.topics[topic].partitions[index] for index in chosen}
    elections = plan(partitions, leader, metadata.brokers, moving)
    possible = [each for each in elections if each.is_possible]
    if not json:
        show(topic, elections, leader)
    if possible:
        confirm(f"Elect {counted(len(possible), 'leader')}?", yes=yes, json=json)
    failures = {each.partition: each.why for each in elections if not each.is_possible}
    failures |= hold(reassignments, possible)
    done = [each for each in possible if each.partition not in failures]
    if json:
        told = [as_json(each, failures.get(each.partition)) for each in elections]
        print_json({"topic": topic, "partitions": told})
    elif done:
        print(f"{counted(len(done), 'partition')} of {topic} got another leader")
    require_all(topic, failures)


def plan(
    partitions: Mapping[int, Any], leader: int | None, live: Collection[int], moving: Collection[int]
) -> list[Election]:
    """The partitions that are not led as they should be; `partitions` as librdkafka tells of them."""
    elections = []
    for index, partition in partitions.items():
        replicas = tuple(partition.replicas)
        new_leader = replicas[0] if leader is None else leader
        if partition.leader == new_leader:
            continue
        obstacle = obstacle_of(partition, new_leader, live)
        order = None
        if obstacle is None and new_leader != replicas[0]:
            if index in moving:
                obstacle = "its replicas are being moved"
            order = (new_leader, *(each for each in replicas if each != new_leader))
        why = obstacle or ("it is preferred" if order is None else f"replicas become {ids(order)}")
        old = partition.leader if partition.leader != NO_LEADER else None
        elections.append(Election(index, old, new_leader, why, obstacle is None, order))
    return elections


def obstacle_of(partition: Any, new_leader: int, live: Collection[int]) -> str | None:
    if new_leader not in partition.replicas:
        return f"broker {new_leader} has no replica of it"
    if new_leader not in live:
        return f"broker {new_leader} is not running"
    if new_leader not in partition.isrs:
        return f"broker {new_leader} is not in sync"
    return None


def hold(reassignments: Reassignments, elections: list[Election]) -> Failures:
    orders = {each.partition: each.order for each in elections if each.order is not None}
    failures = reassignments.alter(orders) if orders else {}
    left = [each.partition for each in elections if each.partition not in failures]
    return failures | reassignments.elect_preferred(left)


def show(topic: str, elections: list[Election], leader: int | None) -> None:
    if not elections:
        whom = "its preferred replica" if leader is None else f"broker {leader}"
        print(f"topic {topic}: each of these partitions is led by {whom} already")
        return
    rows: list[list[Cell]] = [
        [topic, each.partition, each.leader, each.new_leader if each.is_possible else None, each.why]
        for each in elections
    ]
    print_table(["TOPIC", "PARTITION", "LEADER", "NEW LEADER", "WHY"], rows)


def as_json(election: Election, failure: str | None) -> dict[str, Any]:
    return {
        "partition": election.partition,
        "leader": election.leader,
        "new_leader": election.new_leader,
        "elected": failure is None,
        "reason": failure,
    }
