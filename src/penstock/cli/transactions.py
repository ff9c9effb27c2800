"""`penstock transactions`: what is open, what hangs, and ending it by hand."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer

from penstock.cli.kafka import require_reachable
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json, check_name
from penstock.cli.output import CommandFailed, counted, print_json, print_table
from penstock.gateway.kafka.errors import KafkaClientError
from penstock.gateway.kafka.open_transactions import (
    NO_TIMESTAMP,
    KnownTransaction,
    OpenTransaction,
    owner_of,
    why_hanging,
)
from penstock.gateway.kafka.transactions import ClusterTransactions
from penstock.types import TopicPartition

transactions = typer.Typer(
    name="transactions", help="Transactions: what is open, what hangs, ending it.", no_args_is_help=True
)

TRANSACTION_SECONDS_MAX = 15 * 60
"""Kafka's `transaction.max.timeout.ms`, and Penstock's."""

T = TypeVar("T")
Id = Annotated[str, typer.Argument(metavar="ID", help="The transactional id.", callback=check_name)]


def register(app: typer.Typer) -> None:
    app.add_typer(transactions)


@transactions.command("list")
def list_transactions(bootstrap: Bootstrap = BOOTSTRAP, json: Json = False) -> None:
    """List the transactional ids, and where the transaction of each stands."""
    found = ask(bootstrap, lambda cluster: cluster.known())
    if json:
        print_json({"transactions": [known_row(each) for each in found]})
    elif found:
        print_table(
            ["ID", "STATE", "PRODUCER", "EPOCH", "COORDINATOR", "STARTED"],
            [
                (
                    each.transactional_id,
                    each.state,
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator,
                    shown_time(each.start_ms) if each.is_open else None,
                )
                for each in found
            ],
        )


@transactions.command()
def describe(transactional_id: Id, bootstrap: Bootstrap = BOOTSTRAP, json: Json = False) -> None:
    """Show the owner of a transactional id, and the partitions of its open transaction."""
    found = require_known(transactional_id, ask(bootstrap, lambda each: each.describe(transactional_id)))
    if json:
        print_json(known_row(found))
        return
    started = f", open since {shown_time(found.start_ms)}" if found.is_open else ""
    print(f"{transactional_id}: {found.state}{started}")
    print(f"producer {found.producer_id}, epoch {found.producer_epoch}, timeout {found.timeout_ms} ms")
    print(f"coordinated by broker {found.coordinator}")
    if found.partitions:
        print_table(["TOPIC", "PARTITION"], sorted(found.partitions))


@transactions.command()
def hanging(
    broker: Annotated[int | None, typer.Option(help="Only partitions that this broker leads.")] = None,
    seconds: Annotated[
        int, typer.Option(min=1, help="One that its coordinator has had for longer hangs as well.")
    ] = TRANSACTION_SECONDS_MAX,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Find transactions that nobody will end, and that hold up readers of committed data."""
    found = ask(bootstrap, lambda cluster: find_hanging(cluster, seconds * 1_000))
    found = [(each, reason) for each, reason in found if broker in (None, each.leader)]
    if json:
        print_json({"hanging": [{**open_row(each), "reason": reason} for each, reason in found]})
    elif found:
        print_table(
            ["TOPIC", "PARTITION", "START", "PRODUCER", "EPOCH", "LEADER", "LAST WRITE", "REASON"],
            [
                (
                    each.topic,
                    each.partition,
                    each.start_offset,
                    each.producer_id,
                    each.producer_epoch,
                    each.leader,
                    shown_time(each.last_timestamp_ms),
                    reason,
                )
                for each, reason in found
            ],
        )


@transactions.command()
def abort(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", callback=check_name)] = None,
    partition: Annotated[int | None, typer.Argument(metavar="PARTITION", min=0)] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="Where the transaction begins.")
    ] = None,
    transactional_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="All of what this id has open.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if a coordinator knows it, which tears it apart.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
) -> None:
    """Abort a transaction: one that hangs in a partition, or what a transactional id has open."""
    in_partition = (topic, partition, start_offset)
    if transactional_id is not None:
        if in_partition != (None, None, None) or force:
            raise typer.BadParameter("with --id nothing else is told", param_hint="--id")
        check_name(transactional_id)
        ask(bootstrap, lambda cluster: fence(cluster, transactional_id))
        print(f"{transactional_id} has no open transaction, and its producer is fenced")
        return
    if topic is None or partition is None or start_offset is None:
        raise typer.BadParameter("either TOPIC, PARTITION and --start-offset, or --id", param_hint="TOPIC")
    where = TopicPartition(topic, partition)
    ended = ask(bootstrap, lambda cluster: abort_open(cluster, where, start_offset, is_forced=force))
    print(f"aborted the transaction of producer {ended.producer_id} at {start_offset} of {where}")


async def find_hanging(cluster: ClusterTransactions, age_ms_max: int) -> list[tuple[OpenTransaction, str]]:
    """A transaction may end between two questions: what counts is open before and after the coordinators
    were asked."""
    before = await cluster.open()
    if not before:
        return []
    known = await cluster.known({each.producer_id for each in before})
    now_ms = int(time.time() * 1_000)
    reasons = {identity(each): why_hanging(each, known, now_ms, age_ms_max) for each in before}
    after = await cluster.open() if any(reasons.values()) else []
    return [(each, reason) for each in after if (reason := reasons.get(identity(each)))]


def identity(found: OpenTransaction) -> tuple[TopicPartition, int, int]:
    return found.where, found.producer_id, found.start_offset


async def abort_open(
    cluster: ClusterTransactions, where: TopicPartition, start_offset: int, *, is_forced: bool
) -> OpenTransaction:
    found = await cluster.open(where)
    wanted = next((each for each in found if each.start_offset == start_offset), None)
    if wanted is None:
        offsets = ", ".join(str(each.start_offset) for each in found)
        others = f"open ones begin at {offsets}" if found else "none is open there"
        raise CommandFailed(f"no open transaction of {where} begins at {start_offset}: {others}")
    owner = owner_of(wanted, await cluster.known({wanted.producer_id}))
    if owner is not None and not is_forced:
        raise CommandFailed(
            f"it does not hang: {owner.transactional_id!r} has it, {owner.state} in"
            f" {counted(len(owner.partitions), 'partition')};"
            f" 'abort --id {owner.transactional_id}' ends all of it"
        )
    await cluster.abort(wanted)
    return wanted


async def fence(cluster: ClusterTransactions, transactional_id: str) -> None:
    await cluster.fence(require_known(transactional_id, await cluster.describe(transactional_id)))


def require_known(transactional_id: str, found: KnownTransaction | None) -> KnownTransaction:
    if found is None:
        raise CommandFailed(f"transactional id {transactional_id!r} does not exist")
    return found


def ask(bootstrap: str, question: Callable[[ClusterTransactions], Awaitable[T]]) -> T:
    require_reachable(bootstrap)

    async def run() -> T:
        cluster = ClusterTransactions(bootstrap, "penstock-cli")
        try:
            return await question(cluster)
        finally:
            cluster.close()

    try:
        return asyncio.run(run())
    except KafkaClientError as error:
        raise CommandFailed(str(error)) from error


def known_row(found: KnownTransaction) -> dict[str, Any]:
    return {
        "id": found.transactional_id,
        "state": found.state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "coordinator": found.coordinator,
        "timeout_ms": found.timeout_ms,
        "started_ms": found.start_ms if found.is_open else None,
        "partitions": [where._asdict() for where in sorted(found.partitions)],
    }


def open_row(found: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "partition": found.partition,
        "start_offset": found.start_offset,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "leader": found.leader,
        "last_write_ms": None if found.last_timestamp_ms == NO_TIMESTAMP else found.last_timestamp_ms,
    }


def shown_time(time_ms: int) -> str | None:
    if time_ms == NO_TIMESTAMP:
        return None
    return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="seconds")
