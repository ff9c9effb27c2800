"""`penstock cluster`: what the brokers are and how they are.

The Kafka protocol tells most of it. What it does not tell (pid, state, roles) comes from the admin endpoint,
and is unknown when there is none, or when it belongs to another cluster.
"""

import http.client
import json as json_module
import urllib.error
import urllib.request
from typing import Annotated, Any

import typer
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.cli.kafka import INTERNAL_PREFIX, cluster_metadata, connect
from penstock.cli.offsets import Position, positions
from penstock.cli.options import BOOTSTRAP, HTTP, Bootstrap, Http, Json
from penstock.cli.output import Cell, CommandFailed, print_json, print_table

HTTP_SECONDS_MAX = 3.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024

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
    seen = read_status(connect(bootstrap), bootstrap, endpoint)
    if json:
        print_json(seen)
        return
    controller = "no controller" if seen["controller"] is None else f"controller {seen['controller']}"
    print(f"cluster {seen['cluster_id']}, {controller}")
    brokers: list[list[Cell]] = [
        [
            broker["id"],
            f"{broker['host']}:{broker['port']}",
            broker["state"],
            broker["pid"],
            "+".join(broker["roles"] or []) or None,
        ]
        for broker in seen["brokers"]
    ]
    print_table(["BROKER", "ADDRESS", "STATE", "PID", "ROLES"], brokers)
    shown = [topic for topic in seen["topics"] if everything or not topic["name"].startswith(INTERNAL_PREFIX)]
    if shown:
        print_table(["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "END"], rows_of(shown))


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


def read_status(admin: AdminClient, bootstrap: str, endpoint: str) -> dict[str, Any]:
    metadata = cluster_metadata(admin, bootstrap)
    led = [
        (name, index)
        for name, topic in metadata.topics.items()
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    ]
    ends = positions(admin, led, OffsetSpec.latest())
    told = told_by_endpoint(endpoint, metadata.cluster_id)
    known = {broker["id"]: broker for broker in told.get("brokers", [])}
    seen: dict[str, Any] = {
        "cluster_id": metadata.cluster_id,
        "controller": metadata.controller_id if metadata.controller_id >= 0 else None,
        "brokers": [
            {
                "id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "pid": known.get(broker.id, {}).get("pid"),
                "state": known.get(broker.id, {}).get("state", "unknown"),
                "roles": known.get(broker.id, {}).get("roles"),
            }
            for _, broker in sorted(metadata.brokers.items())
        ],
        "topics": [
            {
                "name": name,
                "partitions": [
                    partition_status(topic.partitions[index], ends.get((name, index)))
                    for index in sorted(topic.partitions)
                ],
            }
            for name, topic in sorted(metadata.topics.items())
        ],
    }
    if told.get("nodes"):
        seen["nodes"] = told["nodes"]
    return seen


def partition_status(partition: Any, end: Position | None) -> dict[str, Any]:
    return {
        "partition": partition.id,
        "leader": partition.leader if partition.leader >= 0 else None,
        "leader_epoch": end.leader_epoch if end else None,
        "replicas": partition.replicas,
        "isr": partition.isrs,
        "high_watermark": end.offset if end else None,
    }


def told_by_endpoint(endpoint: str, cluster_id: str | None) -> dict[str, Any]:
    """What the admin endpoint says about this cluster; nothing if it is not there, or is somebody else's."""
    if not endpoint.startswith(("http://", "https://")):
        raise CommandFailed(f"--http: {endpoint!r} is not an address of the form http://HOST:PORT")
    address = endpoint.rstrip("/") + "/v1/cluster"
    try:
        with urllib.request.urlopen(address, timeout=HTTP_SECONDS_MAX) as response:  # noqa: S310 - checked above
            told = json_module.loads(response.read(ANSWER_BYTES_MAX))
    except (OSError, ValueError, http.client.HTTPException):
        return {}
    if not isinstance(told, dict) or told.get("cluster_id") != cluster_id:
        return {}
    return told
