"""`penstock cluster kill`: faults to try on a local cluster.

The admin endpoint tells which process is which. A signal then goes to that process directly, so this works on
the machine of the cluster only.
"""

from __future__ import annotations

import re
import signal as signals
import socket
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from penstock.cli.cluster_endpoint import ALIVE, ask
from penstock.cli.kafka import cluster_metadata, connect, require_topic
from penstock.cli.options import HTTP, Http
from penstock.cli.output import CommandFailed
from penstock.signalling import WrongProcessError, send_signal

LEADER = "leader:"
CONTROLLER = "controller"
FLIGHTS = "flights"
SERVICES = ("supervisor", "gateway", FLIGHTS)


def check_target(target: str) -> str:
    if target in (CONTROLLER, *SERVICES) or re.fullmatch("[0-9]{1,10}|leader:.+", target):
        return target
    raise typer.BadParameter(f"{target!r} is none of these")


def kill(
    target: Annotated[
        str,
        typer.Argument(
            callback=check_target,
            metavar="NODE_ID|leader:TOPIC|controller|gateway|flights|supervisor",
            help="Who gets the signal; leader:TOPIC is the leader of the topic's partition 0.",
        ),
    ],
    signal: Annotated[
        Literal["KILL", "STOP", "CONT", "TERM"], typer.Option(help="Which signal it gets.")
    ] = "KILL",
    endpoint: Http = HTTP,
) -> None:
    """Send a signal to a node of a cluster on this machine; what ends is started again by the supervisor."""
    told = ask(endpoint, "/v1/cluster")
    node = find_node(told, target)
    if node["id"] == FLIGHTS and "host" in node:
        require_this_machine(node["host"])
    else:
        require_local(endpoint)
    if node["pid"] is None:
        raise CommandFailed(f"{name_of(node)} is down: it has no process")
    send(node["pid"], signals.Signals[f"SIG{signal}"], name_of(node), marked(node))
    print(f"sent SIG{signal} to {name_of(node)}, process {node['pid']}")


def name_of(node: dict[str, Any]) -> str:
    if isinstance(node["id"], int):
        return f"node {node['id']}"
    return "the Flights service" if node["id"] == FLIGHTS else f"the {node['id']}"


def marked(node: dict[str, Any]) -> bytes:
    """What is in the command line of its process, so that a pid of old is not taken for it."""
    return FLIGHTS.encode() if node["id"] == FLIGHTS else b"penstock"


def require_this_machine(host: str) -> None:
    """Of a process that tells itself where it runs, in its heartbeats."""
    if host != socket.gethostname():
        raise CommandFailed(f"it runs on {host}, and signals can be sent on this machine alone")


def require_local(endpoint: str) -> None:
    """A pid says nothing about processes of another machine. Only own addresses can be bound to."""
    host = urlsplit(endpoint).hostname or ""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError as error:
        raise CommandFailed(f"{endpoint} is not on this machine, where alone signals can be sent") from error


def find_node(told: dict[str, Any], target: str) -> dict[str, Any]:
    if target.startswith(LEADER):
        return require_node(told, leader_of(told, target.removeprefix(LEADER)))
    if target == CONTROLLER:
        if told.get("controller") is None:
            raise CommandFailed("there is no active controller")
        return require_node(told, told["controller"])
    if target in SERVICES:
        return require_node(told, target)
    return require_node(told, int(target))


def require_node(told: dict[str, Any], node_id: int | str) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [*told.get("brokers", []), *told.get("nodes", [])]
    for node in nodes:
        if node["id"] == node_id:
            return node
    name = node_id if isinstance(node_id, str) else f"node {node_id}"
    raise CommandFailed(f"{name}: not part of this cluster")


def leader_of(told: dict[str, Any], topic: str) -> int:
    """Asked of the brokers themselves: what the endpoint knows may be a moment old."""
    addresses = [f"{each['host']}:{each['port']}" for each in told["brokers"] if each["state"] in ALIVE]
    if not addresses:
        raise CommandFailed("no broker of the cluster is running")
    bootstrap = ",".join(addresses)
    metadata = cluster_metadata(connect(bootstrap), bootstrap)
    require_topic(metadata, topic)
    leader = metadata.topics[topic].partitions[0].leader
    if leader < 0:
        raise CommandFailed(f"topic {topic!r} has no leader")
    return leader


def send(pid: int, number: signals.Signals, name: str, mark: bytes = b"penstock") -> None:
    try:
        send_signal(pid, number, mark)
    except WrongProcessError as error:
        message = f"process {pid} is not {name}: the endpoint is behind, or on another machine"
        raise CommandFailed(message) from error
    except ProcessLookupError as error:
        raise CommandFailed(f"{name} has just ended: there is no process {pid}") from error
    except PermissionError as error:
        raise CommandFailed(f"{name} belongs to another user") from error
