"""`penstock cluster balance`: what the balancer would do, now and not when it has waited long enough.

Kafka has no such request. It goes as ElectLeaders of a type of Penstock's own, see
broker/handlers/elect_leaders.py, and nothing is sent before the other side is known to be Penstock.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.cluster_decommission import require_penstock
from penstock.cli.cluster_requests import ask_cluster
from penstock.cli.kafka import cluster_metadata, connect
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json
from penstock.cli.output import Cell, CommandFailed, confirm, counted, print_json, print_table

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata

ELECT_LEADERS: Final = (43, 2)
BALANCE: Final = 100
DRY_RUN: Final = 101
TIMEOUT: Final = timedelta(seconds=10)

Move = dict[str, Any]


def balance(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Spread leaders and replicas over the brokers now, as far as it is due."""
    admin = connect(bootstrap)
    metadata = cluster_metadata(admin, bootstrap)
    require_penstock(admin, metadata)
    moves = ask(metadata, DRY_RUN)
    if not json:
        show(moves)
    if moves and not dry_run:
        confirm(f"Make {counted(len(moves), 'move')}?", yes=yes, json=json)
        moves = ask(metadata, BALANCE)
    if json:
        print_json({"done": not dry_run, "moves": moves})
    elif moves and not dry_run:
        print(f"{counted(len(moves), 'move')} made; see `penstock cluster log`")


def ask(metadata: ClusterMetadata, kind: int) -> list[Move]:
    from penstock.types import ErrorCode

    body = {"election_type": kind, "topic_partitions": None, "timeout": TIMEOUT}
    told = ask_cluster(metadata, ELECT_LEADERS, body)
    if told.error_code is not ErrorCode.none:
        raise CommandFailed(f"the controller answers {told.error_code.name}")
    moves = []
    for topic in told.replica_election_results:
        for partition in topic.partition_result:
            move, _, reason = (partition.error_message or "").partition("\n")
            place = {"topic": topic.topic, "partition": partition.partition_id}
            moves.append({**place, "move": move, "reason": reason})
    return moves


def show(moves: list[Move]) -> None:
    if not moves:
        print("the cluster is balanced: there is nothing to do")
        return
    rows: list[list[Cell]] = [[move["move"], move["reason"]] for move in moves]
    print_table(["MOVE", "WHY"], rows)
