"""`penstock cluster recover`: a leader for partitions that no in-sync replica can lead.

The in-sync replicas are gone, with their disks or for good, and others have part of what was acknowledged.
Only a person can say that this part is enough. So what each replica has is shown before the question.
The election itself is Kafka's ElectLeaders, unclean: the controller compares the logs again and takes the
greatest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from confluent_kafka import ElectionType, TopicPartition

from penstock.cli.cluster_controllers import recover_controllers
from penstock.cli.cluster_decommission import require_penstock
from penstock.cli.cluster_requests import NoAnswerError, ask_broker
from penstock.cli.kafka import answer, cluster_metadata, connect, require_partitions
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json, split_partition
from penstock.cli.output import Cell, CommandFailed, confirm, counted, print_json, print_table

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata

CONTROLLERS: Final = "controllers"
LIST_OFFSETS: Final = (2, 7)
DEBUGGING_REPLICA_ID: Final = -2
"""To which every replica tells the end of its own log."""
LATEST: Final = -1
NO_LEADER: Final = -1


class Replica(NamedTuple):
    broker: int
    state: str
    epoch: int | None = None
    end: int | None = None


def recover(
    wanted: Annotated[
        str, typer.Argument(metavar="TOPIC[:PARTITION]|controllers", help="What has no leader.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For controllers: the file of the one that has its data."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Elect whoever has most where nobody who has all is left. Messages may be lost."""
    if wanted == CONTROLLERS:
        recover_controllers(config, yes=yes, json=json)
        return
    topic, number = split_partition(wanted)
    admin = connect(bootstrap)
    metadata = cluster_metadata(admin, bootstrap)
    require_penstock(admin, metadata)
    waiting = leaderless(metadata, topic, number)
    replicas = {index: replicas_of(metadata, topic, index) for index in waiting}
    if not json:
        show(topic, replicas)
    recoverable = [index for index, each in replicas.items() if any(one.end is not None for one in each)]
    if recoverable:
        confirm("Go on, and accept that?", yes=yes, json=json)
    for index in recoverable:
        elect(admin, topic, index)
    if json:
        partitions = [as_json(index, found, index in recoverable) for index, found in replicas.items()]
        print_json({"topic": topic, "partitions": partitions})
    elif recoverable:
        print(f"{counted(len(recoverable), 'partition')} of {topic} recovered, see `penstock cluster log`")
    if len(recoverable) < len(waiting):
        raise CommandFailed("of some partitions no replica is alive: start a broker that has one")


def leaderless(metadata: ClusterMetadata, topic: str, number: int | None) -> list[int]:
    chosen = require_partitions(metadata, topic, number)
    return [index for index in chosen if metadata.topics[topic].partitions[index].leader == NO_LEADER]


def replicas_of(metadata: ClusterMetadata, topic: str, index: int) -> list[Replica]:
    replicas = metadata.topics[topic].partitions[index].replicas
    return [ask(metadata, broker_id, topic, index) for broker_id in replicas]


def ask(metadata: ClusterMetadata, broker_id: int, topic: str, index: int) -> Replica:
    from penstock.types import ErrorCode

    broker: Any = metadata.brokers.get(broker_id)
    if broker is None:
        return Replica(broker_id, "away")
    partition = {"partition_index": index, "current_leader_epoch": -1, "timestamp": LATEST}
    body = {
        "replica_id": DEBUGGING_REPLICA_ID,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    try:
        told = ask_broker(broker.host, broker.port, LIST_OFFSETS, body).topics[0].partitions[0]
    except NoAnswerError:
        return Replica(broker_id, "silent")
    if told.error_code is not ErrorCode.none:
        return Replica(broker_id, told.error_code.name.lower())
    return Replica(broker_id, "alive", told.leader_epoch, told.offset)


def show(topic: str, replicas: dict[int, list[Replica]]) -> None:
    if not replicas:
        print(f"topic {topic} has a leader for each of its partitions: there is nothing to recover")
        return
    rows: list[list[Cell]] = [
        [index, each.broker, each.state, each.epoch, each.end]
        for index, found in replicas.items()
        for each in found
    ]
    print_table(["PARTITION", "BROKER", "REPLICA", "EPOCH", "END"], rows)
    for index, found in replicas.items():
        ends = [(each.epoch, each.end) for each in found if each.end is not None]
        if ends:
            _, end = max(ends)
            print(
                f"{topic}-{index}: the log that ends at {end} would lead. What was acknowledged from offset"
                f" {end} on is given up, also if a replica that is away has it"
            )


def elect(admin: Any, topic: str, index: int) -> None:
    where = TopicPartition(topic, index)
    outcome = answer(admin.elect_leaders(ElectionType.UNCLEAN, [where]))[where]
    if outcome is not None:
        raise CommandFailed(f"{topic}-{index}: {outcome.str()}")


def as_json(index: int, replicas: list[Replica], is_recovered: bool) -> dict[str, Any]:
    return {
        "partition": index,
        "recovered": is_recovered,
        "replicas": [each._asdict() for each in replicas],
    }
