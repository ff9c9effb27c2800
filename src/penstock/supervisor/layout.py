"""Which nodes a local cluster has, and where they listen: pure.

A layout is decided once, when the cluster is made, and recorded in `cluster.json`. Later starts may add
brokers and move the whole cluster to other ports; they never take a node away, because it holds data.

Brokers have the ids 1, 2, 3, … Without dedicated controllers the first three of them are controllers too, or
the first if there are fewer than three. Dedicated controllers have the ids 1001, 1002, …
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.supervisor.errors import SupervisorError

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
FIRST_DEDICATED_ID: Final = 1001
BROKERS_MAX: Final = FIRST_DEDICATED_ID - 1
COMBINED_CONTROLLERS: Final = 3
PORT_MAX: Final = 65_535
LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on
"""Where a node that listens on all addresses is reached from its own machine."""

PickPorts = Callable[[int, Collection[int]], list[int]]
"""That many free ports, none of them among the given ones."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    id: int
    roles: tuple[str, ...]
    host: str
    port: int

    @property
    def address(self) -> str:
        return format_address(self.host, self.port)

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    cluster_id: str
    nodes: tuple[NodeSpec, ...]

    @property
    def brokers(self) -> list[NodeSpec]:
        return [node for node in self.nodes if node.is_broker]

    @property
    def controllers(self) -> list[NodeSpec]:
        return [node for node in self.nodes if node.is_controller]

    @property
    def dedicated(self) -> list[NodeSpec]:
        return [node for node in self.nodes if not node.is_broker]

    @property
    def kafka(self) -> str:
        """The brokers' addresses, as clients take them."""
        return ",".join(node.address for node in self.brokers)

    @property
    def voters(self) -> list[str]:
        """The controllers as every node's file names them."""
        return [
            f"{node.id}@{format_address(LOOPBACK.get(node.host, node.host), node.port)}"
            for node in self.controllers
        ]

    @property
    def stop_order(self) -> list[list[NodeSpec]]:
        """Controllers go last: a broker that stops hands its partitions over with their help."""
        return [[node for node in self.nodes if not node.is_controller], self.controllers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user asked for; None where nothing was said."""

    brokers: int | None = None
    controllers: int | None = None
    host: str | None = None
    port: int | None = None


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def new_layout(cluster_id: str, wanted: Wanted, *, host: str, port: int, pick: PickPorts) -> ClusterLayout:
    """A cluster that was not there before; `host` and `port` are the defaults."""
    brokers = wanted.brokers or 1
    host = wanted.host or host
    ports = broker_ports(brokers, port if wanted.port is None else wanted.port, pick)
    combined = 0
    if wanted.controllers is None:
        combined = COMBINED_CONTROLLERS if brokers >= COMBINED_CONTROLLERS else 1
    nodes = [
        NodeSpec(number, (BROKER, CONTROLLER) if number <= combined else (BROKER,), host, ports[number - 1])
        for number in range(1, brokers + 1)
    ]
    nodes += [
        NodeSpec(FIRST_DEDICATED_ID + index, (CONTROLLER,), host, each)
        for index, each in enumerate(pick(wanted.controllers or 0, ports))
    ]
    return ClusterLayout(cluster_id, tuple(nodes))


def broker_ports(brokers: int, port: int, pick: PickPorts) -> list[int]:
    if brokers > BROKERS_MAX:
        raise SupervisorError(f"--brokers: more than {BROKERS_MAX} on one machine")
    if port == 0:
        return pick(brokers, [])
    if port + brokers - 1 > PORT_MAX:
        raise SupervisorError(f"--port: {brokers} ports from {port} on would go beyond {PORT_MAX}")
    return list(range(port, port + brokers))


def reconcile(
    recorded: ClusterLayout, wanted: Wanted, *, some_run: bool, where: str, pick: PickPorts
) -> ClusterLayout:
    """The recorded cluster with what the user wants changed; SupervisorError where that cannot be.

    `some_run`: nodes of it are running, and stay where they listen. `where` names the folder in errors.
    """
    held = len(recorded.brokers)
    if wanted.brokers is not None and wanted.brokers < held:
        raise SupervisorError(f"{where} holds a cluster of {held} brokers; --brokers may only be more")
    dedicated = len(recorded.dedicated)
    if wanted.controllers is not None and wanted.controllers != dedicated:
        has = f"{dedicated} dedicated controllers" if dedicated else "no dedicated controllers"
        raise SupervisorError(f"{where} holds a cluster with {has}; --controllers cannot change that")
    moved = relocated(recorded, wanted)
    if moved != recorded and some_run:
        raise SupervisorError(
            f"nodes of {where} are running on other addresses; --host and --port cannot move them"
        )
    return grown(moved, wanted.brokers or held, pick)


def relocated(layout: ClusterLayout, wanted: Wanted) -> ClusterLayout:
    host = wanted.host or layout.nodes[0].host
    nodes = [replace(node, host=host) for node in layout.nodes]
    if wanted.port:
        ports = iter(broker_ports(len(layout.brokers), wanted.port, lambda _count, _taken: []))
        nodes = [replace(node, port=next(ports)) if node.is_broker else node for node in nodes]
    return replace(layout, nodes=tuple(nodes))


def grown(layout: ClusterLayout, brokers: int, pick: PickPorts) -> ClusterLayout:
    """With brokers added after the last one, on the ports after its port where these are consecutive."""
    held = layout.brokers
    count = brokers - len(held)
    if count == 0:
        return layout
    first, last = held[0], held[-1]
    if last.port - first.port == len(held) - 1 and first.port + brokers - 1 <= PORT_MAX:
        ports = broker_ports(brokers, first.port, pick)[len(held) :]
    else:
        ports = pick(count, [node.port for node in layout.nodes])
    taken = {node.port for node in layout.dedicated}
    if taken & set(ports):
        ports = pick(count, [node.port for node in layout.nodes])
    added = [NodeSpec(last.id + 1 + index, (BROKER,), last.host, each) for index, each in enumerate(ports)]
    return replace(layout, nodes=(*held, *added, *layout.dedicated))


def layout_as_json(layout: ClusterLayout) -> dict[str, Any]:
    return {
        "cluster_id": layout.cluster_id,
        "nodes": [
            {"id": node.id, "roles": list(node.roles), "host": node.host, "port": node.port}
            for node in layout.nodes
        ],
    }


def layout_from_json(value: Mapping[str, Any]) -> ClusterLayout:
    """ValueError says what is wrong with it."""
    try:
        nodes = tuple(
            NodeSpec(int(node["id"]), tuple(map(str, node["roles"])), str(node["host"]), int(node["port"]))
            for node in value["nodes"]
        )
        layout = ClusterLayout(str(value["cluster_id"]), nodes)
    except (KeyError, TypeError) as error:
        raise ValueError("a field is missing or of the wrong type") from error
    if len({node.id for node in nodes}) != len(nodes):
        raise ValueError("two nodes have the same id")
    if not all(node.roles and {BROKER, CONTROLLER}.issuperset(node.roles) for node in nodes):
        raise ValueError("a node has a role that does not exist")
    if not all(0 < node.port <= PORT_MAX for node in nodes):
        raise ValueError("a node has no port")
    if not layout.brokers or not layout.controllers:
        raise ValueError("there is no broker or no controller")
    return layout
