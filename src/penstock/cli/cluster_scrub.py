"""`penstock cluster scrub`: every broker reads its closed segments again and says what rotted or diverged.

Each is asked again and again until it is done: see broker/handlers/scrub.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from penstock.cli.cluster_decommission import require_penstock
from penstock.cli.kafka import cluster_metadata, connect
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json, check_name
from penstock.cli.output import CommandFailed, counted, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

SCRUB: Final = (35, 5)
CLIENT_ID: Final = "penstock-cli"
CONNECT_S_MAX: Final = 3.0
ANSWER_S_MAX: Final = 10.0


class BrokerReport(NamedTuple):
    broker: int
    bytes_total: int
    bytes_left: int
    damage: list[dict[str, Any]]


def scrub(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", callback=check_name, help="All topics without it.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Let every broker read its closed segments again, and show what is damaged or differs from its leader.

    Exits 1 if something is or does.
    """
    admin = connect(bootstrap)
    metadata = cluster_metadata(admin, bootstrap)
    require_penstock(admin, metadata)
    if topic is not None and topic not in metadata.topics:
        raise CommandFailed(f"topic {topic!r} does not exist")
    brokers: list[Any] = sorted(metadata.brokers.values(), key=lambda each: each.id)
    reports = asyncio.run(_scrub_all(brokers, topic, None if json else _print_progress))
    damage = [{"broker": report.broker, **each} for report in reports for each in report.damage]
    if json:
        scrubbed = {str(report.broker): report.bytes_total for report in reports}
        print_json({"scrubbed_bytes": scrubbed, "damage": damage})
    elif damage:
        fields = ("broker", "topic", "partition", "offset", "bytes", "file", "problem")
        print_table(
            [field.upper() for field in fields], [[each[field] for field in fields] for each in damage]
        )
    else:
        total = sum(report.bytes_total for report in reports)
        print(f"{counted(total, 'byte')} on {counted(len(reports), 'broker')}: nothing is damaged")
    if damage:
        raise typer.Exit(1)


def _print_progress(report: BrokerReport) -> None:
    if report.bytes_left:
        print(f"broker {report.broker}: {counted(report.bytes_left, 'byte')} left", flush=True)


async def _scrub_all(
    brokers: list[Any], topic: str | None, tell: Callable[[BrokerReport], None] | None
) -> list[BrokerReport]:
    return await asyncio.gather(*(_scrub_one(each, topic, tell) for each in brokers))


async def _scrub_one(
    broker: Any, topic: str | None, tell: Callable[[BrokerReport], None] | None
) -> BrokerReport:
    from penstock.peers.connection import PeerConnection, PeerError
    from penstock.wire.exchange import load_exchange
    from penstock.wire.primitives import DecodeError

    exchange = load_exchange(*SCRUB)
    body = {"topics": None if topic is None else [{"topic": topic, "partitions": ()}]}
    try:
        connection = await PeerConnection.open(broker.host, broker.port, CONNECT_S_MAX)
        try:
            correlation_id = 1
            while True:
                request = exchange.request(correlation_id, CLIENT_ID, body)
                answer = exchange.response(await connection.ask(correlation_id, [request], ANSWER_S_MAX))
                report = _report(broker.id, answer)
                if not report.bytes_left:
                    return report
                if tell is not None:
                    tell(report)
                correlation_id += 1
        finally:
            connection.close("done")
    except (PeerError, DecodeError) as error:
        raise CommandFailed(f"broker {broker.id}: {error}") from error


def _report(broker_id: int, answer: Any) -> BrokerReport:
    if answer.error_code != 0 or not answer.results:
        raise CommandFailed(f"broker {broker_id} answers {answer.error_code.name}")
    progress, *damaged = answer.results
    damage = [
        {
            "topic": topic.name,
            "partition": partition.partition_index,
            "offset": partition.offset_lag,
            "bytes": partition.partition_size,
            "file": each.log_dir,
            "problem": "damaged" if each.total_bytes < 0 else f"differs from broker {each.total_bytes}",
        }
        for each in damaged
        for topic in each.topics
        for partition in topic.partitions
    ]
    return BrokerReport(broker_id, progress.total_bytes, progress.usable_bytes, damage)
