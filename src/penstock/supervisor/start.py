"""From what the user asked for to a running supervisor, refusing before anything is touched."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import socket
import sys
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.broker import node_status
from penstock.hosts import LOOPBACK, loopback_of
from penstock.supervisor.errors import SupervisorError
from penstock.supervisor.folder import ClusterFolder
from penstock.supervisor.layout import ClusterLayout, Wanted, new_layout, reconcile
from penstock.supervisor.node_files import write_node_files
from penstock.supervisor.services import GatewayOptions
from penstock.supervisor.supervisor import HttpAddress, OnReady, Supervisor

NODE_COMMAND: Final = (sys.executable, "-m", "penstock", "broker", "--config")
"""Runs a node; the path of its file is added."""

# Below the range from which Linux takes the local ports of outgoing connections: a port from there could be
# taken by any client between the end of a node and its restart.
FIRST_PORT: Final = 20_000
LAST_PORT: Final = 32_000
TRIES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    data: Path
    wanted: Wanted = field(default_factory=Wanted)
    host: str
    """Where nothing is recorded and nothing was said."""
    port: int
    http_port: int | None
    has_gateway: bool = False
    """Then the port is the gateway's, and the supervisor itself listens on another one."""
    token_file: Path | None = None
    flights: bool = False
    """Whether the Flights service runs beside it."""
    shared: Mapping[str, Any] = field(default_factory=dict)
    """What all nodes are told, by the keys of a node's file."""


class Services(NamedTuple):
    gateway: GatewayOptions | None
    flights: bool


def run_cluster(options: ClusterOptions, on_ready: OnReady, command: Sequence[str] = NODE_COMMAND) -> None:
    """Run until SIGINT or SIGTERM. SupervisorError and OSError say why the cluster cannot start."""
    folder = ClusterFolder(options.data)
    folder.acquire()
    try:
        layout = decide_layout(folder, options)
        folder.write_layout(layout)
        write_node_files(folder, layout, options.shared)
        http, gateway = decide_addresses(layout, options)
        services = Services(gateway, options.flights)
        asyncio.run(supervise(folder, layout, http, services, command, on_ready, is_successor=False))
    finally:
        folder.release()


def run_successor(data: Path, on_ready: OnReady, command: Sequence[str] = NODE_COMMAND) -> None:
    """Go on where a supervisor was killed: all is as it left it in its folder."""
    folder = ClusterFolder(data)
    if not folder.holds_cluster():
        raise SupervisorError(f"{folder.path} holds no cluster")
    folder.acquire()
    try:
        layout, before = folder.read_layout(), folder.read_supervisor()
        if layout is None or before is None:
            raise SupervisorError(f"{folder.path} tells of no supervisor to take over from")
        http = HttpAddress(host=before.host, port=before.http_port)
        services = Services(before.gateway, before.flights)
        asyncio.run(supervise(folder, layout, http, services, command, on_ready, is_successor=True))
    finally:
        folder.release()


async def supervise(
    folder: ClusterFolder,
    layout: ClusterLayout,
    http: HttpAddress,
    services: Services,
    command: Sequence[str],
    on_ready: OnReady,
    *,
    is_successor: bool,
) -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    supervisor = Supervisor(
        folder,
        layout,
        http,
        command,
        gateway=services.gateway,
        flights=services.flights,
        is_successor=is_successor,
    )
    await supervisor.run(on_ready)


def decide_addresses(
    layout: ClusterLayout, options: ClusterOptions
) -> tuple[HttpAddress, GatewayOptions | None]:
    """Where the supervisor listens, and where the gateway does, if there is one."""
    host = layout.nodes[0].host
    if options.http_port is None or not options.has_gateway:
        return HttpAddress(host=loopback_of(host), port=options.http_port), None
    # Both must be found again after a restart, so neither is left to the system.
    taken = {node.port for node in layout.nodes}
    port = options.http_port or free_ports(LOOPBACK, 1, taken)[0]
    (own,) = free_ports(LOOPBACK, 1, {*taken, port})
    gateway = GatewayOptions(
        # Without tokens it is for this machine only, wherever Kafka clients may come from.
        host=host if options.token_file is not None else LOOPBACK,
        port=port,
        token_file=None if options.token_file is None else str(options.token_file.absolute()),
    )
    return HttpAddress(host=LOOPBACK, port=own), gateway


def decide_layout(folder: ClusterFolder, options: ClusterOptions) -> ClusterLayout:
    def pick(count: int, taken: Collection[int]) -> list[int]:
        host = options.wanted.host or options.host
        return free_ports(host, count, {*taken, options.http_port})

    recorded = folder.read_layout()
    if recorded is None:
        return new_layout(new_cluster_id(), options.wanted, host=options.host, port=options.port, pick=pick)
    some_run = any(is_running(folder, node.id) for node in recorded.nodes)
    return reconcile(recorded, options.wanted, some_run=some_run, where=str(folder.path), pick=pick)


def is_running(folder: ClusterFolder, node_id: int) -> bool:
    node = folder.node(node_id)
    return node_status.read(node.data) is not None or node.read_pid() is not None


def new_cluster_id() -> str:
    """22 letters, as Kafka writes its own."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def free_ports(host: str, count: int, taken: Collection[int | None]) -> list[int]:
    """Ports that nothing listens on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found: list[int] = []
    for port in random.sample(range(FIRST_PORT, LAST_PORT), TRIES_MAX):
        if len(found) == count:
            break
        if port in taken:
            continue
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
        found.append(port)
    if len(found) < count:
        raise SupervisorError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT}")
    return found
