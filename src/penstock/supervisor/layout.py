"""Which nodes a local cluster has, and where they listen: pure.

A layout is decided once, when the cluster is made, and recorded in `cluster.json`. Later starts may add
brokers and move the whole cluster to other ports; they never take a node away, because it holds data. A
broker goes by being decommissioned alone, when the cluster has moved all that it held; its id is not used
again.

Brokers have the ids 1, 2, 3, … Without dedicated controllers the first three of them are controllers too, or
the first if there are fewer than three. Dedicated controllers have the ids 1001, 1002, … If there are racks,
the id of a broker says in which it stands, also of one that comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.listening import format_address
from penstock.supervisor.errors import SupervisorError

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
FIRST_DEDICATED_ID: Final = 1001
BROKERS_MAX: Final = FIRST_DEDICATED_ID - 1
COMBINED_CONTROLLERS: Final = 3
PORT_MAX: Final = 65_535
LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on
"""Where a node that listens on all addresses is reached from its own machine."""

Name = int | str
"""The id of a node, or what a service is called, see services.py."""

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
    decommissioned: tuple[int, ...] = ()
    """Ids of nodes that were brokers and are no more part of it."""
    racks: tuple[str, ...] = ()
    """Broker 1 stands in the first, and so on, from the start again after the last."""

    def node(self, node_id: int) -> NodeSpec:
        return next(node for node in self.nodes if node.id == node_id)

    def rack_of(self, node: NodeSpec) -> str | None:
        return self.racks[(node.id - 1) % len(self.racks)] if node.is_broker and self.racks else None

    def without_broker(self, node_id: int) -> ClusterLayout:
        """After that broker was decommissioned. Who is a controller, too, stays that."""
        node = self.node(node_id)
        others = tuple(each for each in self.nodes if each is not node)
        if node.is_controller:
            return replace(self, nodes=in_order((*others, replace(node, roles=(CONTROLLER,)))))
        return replace(self, nodes=others, decommissioned=(*self.decommissioned, node_id))

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
    racks: tuple[str, ...] | None = None


def in_order(nodes: Iterable[NodeSpec]) -> tuple[NodeSpec, ...]:
    return tuple(sorted(nodes, key=lambda node: node.id))


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
    return ClusterLayout(cluster_id, tuple(nodes), racks=wanted.racks or ())


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
    if wanted.racks is not None and wanted.racks != recorded.racks:
        if some_run:
            raise SupervisorError(f"nodes of {where} are running in other racks; --racks cannot move them")
        moved = replace(moved, racks=wanted.racks)
    return grown(moved, wanted.brokers or held, pick)


def relocated(layout: ClusterLayout, wanted: Wanted) -> ClusterLayout:
    host = wanted.host or layout.nodes[0].host
    nodes = [replace(node, host=host) for node in layout.nodes]
    if wanted.port:
        ports = broker_ports(last_broker_id(layout), wanted.port, lambda _count, _taken: [])
        nodes = [
            replace(node, port=ports[node.id - 1]) if node.id < FIRST_DEDICATED_ID else node for node in nodes
        ]
    return replace(layout, nodes=tuple(nodes))


def last_broker_id(layout: ClusterLayout) -> int:
    """The highest that was ever given to a broker."""
    given = [node.id for node in layout.nodes if node.id < FIRST_DEDICATED_ID]
    return max((*given, *layout.decommissioned))


def grown(layout: ClusterLayout, brokers: int, pick: PickPorts) -> ClusterLayout:
    """With brokers added after the last one, on the ports that follow from their ids where all others are."""
    count = brokers - len(layout.brokers)
    if count == 0:
        return layout
    first = last_broker_id(layout) + 1
    ids = range(first, first + count)
    if ids[-1] > BROKERS_MAX:
        raise SupervisorError(f"--brokers: more than {BROKERS_MAX} on one machine")
    taken = {node.port for node in layout.nodes}
    distances = {node.port - node.id for node in layout.brokers}
    ports = [min(distances) + node_id for node_id in ids]
    if len(distances) > 1 or ports[-1] > PORT_MAX or taken & set(ports):
        ports = pick(count, taken)
    host = layout.brokers[-1].host
    added = [NodeSpec(node_id, (BROKER,), host, port) for node_id, port in zip(ids, ports, strict=True)]
    return replace(layout, nodes=in_order((*layout.nodes, *added)))


def layout_as_json(layout: ClusterLayout) -> dict[str, Any]:
    return {
        "cluster_id": layout.cluster_id,
        "nodes": [
            {"id": node.id, "roles": list(node.roles), "host": node.host, "port": node.port}
            for node in layout.nodes
        ],
        **({"decommissioned": list(layout.decommissioned)} if layout.decommissioned else {}),
        **({"racks": list(layout.racks)} if layout.racks else {}),
    }


def layout_from_json(value: Mapping[str, Any]) -> ClusterLayout:
    """ValueError says what is wrong with it."""
    try:
        nodes = tuple(
            NodeSpec(int(node["id"]), tuple(map(str, node["roles"])), str(node["host"]), int(node["port"]))
            for node in value["nodes"]
        )
        gone = tuple(map(int, value.get("decommissioned", ())))
        racks = tuple(map(str, value.get("racks", ())))
        layout = ClusterLayout(str(value["cluster_id"]), nodes, gone, racks)
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
