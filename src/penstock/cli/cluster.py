"""`penstock cluster`: what the nodes are, how they are, and faults to try on them.

The Kafka protocol tells most of it. What it does not tell (pid, state, roles, dedicated controllers) comes
from the admin endpoint, and is unknown when there is none, or when it belongs to another cluster.
"""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.cli.cluster_balance import balance
from penstock.cli.cluster_decommission import decommission
from penstock.cli.cluster_elect import elect
from penstock.cli.cluster_endpoint import ALIVE, ask_if_there
from penstock.cli.cluster_faults import kill
from penstock.cli.cluster_log import show_log, trace
from penstock.cli.cluster_move import move
from penstock.cli.cluster_recover import recover
from penstock.cli.cluster_scrub import scrub
from penstock.cli.kafka import INTERNAL_PREFIX, answer, cluster_metadata, connect
from penstock.cli.offsets import Position, positions
from penstock.cli.options import BOOTSTRAP, HTTP, Bootstrap, Http, Json
from penstock.cli.output import Cell, CommandFailed, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka.admin._metadata import ClusterMetadata

cluster = typer.Typer(name="cluster", help="The brokers and what they hold.", no_args_is_help=True)


@cluster.callback()
def group() -> None:
    """The brokers and what they hold."""


def register(app: typer.Typer) -> None:
    app.add_typer(cluster)


@cluster.command()
def status(
    bootstrap: Bootstrap = BOOTSTRAP,
    endpoint: Http = HTTP,
    everything: Annotated[bool, typer.Option("--all", help="Also the broker's own topics.")] = False,
    json: Json = False,
) -> None:
    """Show brokers, topics and partitions."""
    seen = read_status(bootstrap, endpoint)
    if json:
        print_json(seen)
        return
    controller = "no controller" if seen["controller"] is None else f"controller {seen['controller']}"
    print(f"cluster {seen['cluster_id']}, {controller}")
    show_brokers(seen["brokers"])
    if seen.get("nodes"):
        others = [
            [str(node["id"]), node["state"], node["pid"], roles_of(node), heartbeat_of(node)]
            for node in seen["nodes"]
        ]
        print_table(["NODE", "STATE", "PID", "ROLES", "HEARTBEAT"], others)
    shown = [topic for topic in seen["topics"] if everything or not topic["name"].startswith(INTERNAL_PREFIX)]
    if shown:
        show_partitions(shown)


def show_brokers(brokers: list[dict[str, Any]]) -> None:
    header = ["BROKER", "ADDRESS", "STATE", "PID", "ROLES"]
    rows: list[list[Cell]] = [
        [broker["id"], f"{broker['host']}:{broker['port']}", broker["state"], broker["pid"], roles_of(broker)]
        for broker in brokers
    ]
    add_if_known(header, rows, "RACK", [broker.get("rack") for broker in brokers])
    add_if_known(header, rows, "BUSY", [share_of(broker, "busy") for broker in brokers])
    print_table(header, rows)


def show_partitions(topics: list[dict[str, Any]]) -> None:
    header = ["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "END"]
    rows = rows_of(topics)
    shares = [share_of(partition, "share") for topic in topics for partition in topic["partitions"]]
    add_if_known(header, rows, "LOAD", shares)
    print_table(header, rows)


def add_if_known(header: list[str], rows: list[list[Cell]], title: str, cells: Sequence[Cell]) -> None:
    """A column of what not every cluster tells."""
    if any(cell is not None for cell in cells):
        header.append(title)
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)


def share_of(told: dict[str, Any], name: str) -> str | None:
    """What it takes of an event loop's time."""
    return f"{told['load'][name]:.0%}" if "load" in told else None


cluster.command()(balance)
cluster.command()(kill)
cluster.command()(decommission)
cluster.command()(elect)
cluster.command()(move)
cluster.command()(recover)
cluster.command()(scrub)
cluster.command("log")(show_log)
cluster.command()(trace)


def roles_of(node: dict[str, Any]) -> str | None:
    return "+".join(node["roles"] or []) or None


def heartbeat_of(node: dict[str, Any]) -> str | None:
    """How old its last one is, of a service that sends some."""
    if node.get("heartbeat_ms") is None:
        return None
    return f"{max(0.0, time.time() - node['heartbeat_ms'] / 1000):.1f} s ago"


def rows_of(topics: list[dict[str, Any]]) -> list[list[Cell]]:
    return [
        [
            topic["name"],
            partition["partition"],
            partition["leader"],
            partition["leader_epoch"],
            ",".join(map(str, partition["replicas"])),
            ",".join(map(str, partition["isr"])),
            partition["high_watermark"],
        ]
        for topic in topics
        for partition in topic["partitions"]
    ]


def read_status(bootstrap: str, endpoint: str) -> dict[str, Any]:
    told = ask_if_there(endpoint)
    brokers = told_addresses(told)
    is_told = any(address.strip() in brokers for address in bootstrap.split(","))
    if is_told:
        # Brokers that do not run would only be waited for.
        bootstrap = ",".join(address for address, runs in brokers.items() if runs) or bootstrap
    try:
        admin = connect(bootstrap)
    except CommandFailed:
        if is_told:
            return told
        raise
    metadata = cluster_metadata(admin, bootstrap)
    if told.get("cluster_id") != metadata.cluster_id:
        told = {}
    # Metadata as librdkafka has them lack the racks, which the endpoint tells.
    nodes: list[Any] = [] if told else answer(admin.describe_cluster()).nodes
    racks = {node.id: node.rack for node in nodes}
    return merged_status(metadata, told, ends_of(admin, metadata, told), racks)


def told_addresses(told: dict[str, Any]) -> dict[str, bool]:
    """Where brokers listen, and whether they run."""
    return {f"{each['host']}:{each['port']}": each["state"] in ALIVE for each in told.get("brokers", [])}


def ends_of(
    admin: AdminClient, metadata: ClusterMetadata, told: dict[str, Any]
) -> dict[tuple[str, int], Position]:
    """Of what is led by brokers that run. While they change hands there may be nobody to ask."""
    absent = {broker["id"] for broker in told.get("brokers", []) if broker["state"] not in ALIVE}
    led = [
        (name, index)
        for name, topic in metadata.topics.items()
        for index, partition in topic.partitions.items()
        if partition.leader >= 0 and partition.leader not in absent
    ]
    try:
        return positions(admin, led, OffsetSpec.latest())
    except CommandFailed:
        if not told:
            raise
        return {}


def merged_status(
    metadata: ClusterMetadata,
    told: dict[str, Any],
    ends: dict[tuple[str, int], Position],
    racks: Mapping[int, str | None] = MappingProxyType({}),
) -> dict[str, Any]:
    """What Kafka's protocol says, with what the endpoint adds to it."""
    known = {broker["id"]: broker for broker in told.get("brokers", [])}
    partitions = {
        (topic["name"], partition["partition"]): partition
        for topic in told.get("topics", [])
        for partition in topic["partitions"]
    }
    controller = metadata.controller_id if metadata.controller_id >= 0 else None
    seen: dict[str, Any] = {
        "cluster_id": metadata.cluster_id,
        "controller": told.get("controller", controller),
        "brokers": [
            broker_status(metadata.brokers.get(broker_id), known.get(broker_id), racks.get(broker_id))
            for broker_id in sorted(known.keys() | metadata.brokers.keys())
        ],
        "topics": [
            {
                "name": name,
                "partitions": [
                    partition_status(topic.partitions[i], ends.get((name, i)), partitions.get((name, i)))
                    for i in sorted(topic.partitions)
                ],
            }
            for name, topic in sorted(metadata.topics.items())
        ],
    }
    if told.get("nodes"):
        seen["nodes"] = told["nodes"]
    return seen


def broker_status(broker: Any, told: dict[str, Any] | None, rack: str | None) -> dict[str, Any]:
    """One that is down is known from the endpoint alone."""
    told = told or {}
    return {
        "id": broker.id if broker is not None else told["id"],
        "host": broker.host if broker is not None else told["host"],
        "port": broker.port if broker is not None else told["port"],
        "pid": told.get("pid"),
        "state": told.get("state", "unknown"),
        "roles": told.get("roles"),
        "rack": told.get("rack", rack),
        **loads_of(told),
    }


def loads_of(told: dict[str, Any] | None) -> dict[str, Any]:
    """How busy it is, where that is known."""
    return {"load": told["load"]} if told and "load" in told else {}


def partition_status(partition: Any, end: Position | None, told: dict[str, Any] | None) -> dict[str, Any]:
    if end is None and told is not None:
        end = Position(told["high_watermark"], told["leader_epoch"])
    return {
        "partition": partition.id,
        "leader": partition.leader if partition.leader >= 0 else None,
        "leader_epoch": end.leader_epoch if end else None,
        "replicas": partition.replicas,
        "isr": partition.isrs,
        "high_watermark": end.offset if end else None,
        **loads_of(told),
    }
