"""`penstock cluster kill`: faults to try on a local cluster.

The admin endpoint tells which process is which. A signal then goes to that process directly, so this works on
the machine of the cluster only. With `--random` it goes to one process after the other, chosen by chance:
what a cluster promises must hold through that.
"""

from __future__ import annotations

import random
import re
import signal as signals
import socket
import time
from contextlib import suppress
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import typer

from penstock.cli.cluster_endpoint import ALIVE, NoEndpoint, ask
from penstock.cli.kafka import cluster_metadata, connect, require_topic
from penstock.cli.options import HTTP, Http
from penstock.cli.output import CommandFailed, WrongUsage
from penstock.signalling import WrongProcessError, send_signal

LEADER = "leader:"
CONTROLLER = "controller"
FLIGHTS = "flights"
SUPERVISOR = "supervisor"
SERVICES = (SUPERVISOR, "gateway", FLIGHTS)
SILENCE_S_MAX: Final = 30.0
"""Of the endpoint, which the gateway may have been that was killed."""
LOOK_AGAIN_S: Final = 0.2


class NobodyRuns(CommandFailed):
    """At this moment."""


class ProcessEnded(CommandFailed):
    """Since the endpoint told of it."""


def check_target(target: str | None) -> str | None:
    if target is None or target in (CONTROLLER, *SERVICES) or re.fullmatch("[0-9]{1,10}|leader:.+", target):
        return target
    raise typer.BadParameter(f"{target!r} is none of these")


def kill(
    target: Annotated[
        str | None,
        typer.Argument(
            callback=check_target,
            metavar="NODE_ID|leader:TOPIC|controller|gateway|flights|supervisor",
            help="Who gets the signal; leader:TOPIC is the leader of the topic's partition 0.",
        ),
    ] = None,
    signal: Annotated[
        Literal["KILL", "STOP", "CONT", "TERM"], typer.Option(help="Which signal it gets.")
    ] = "KILL",
    by_chance: Annotated[
        bool, typer.Option("--random", help="One running process after the other, until Ctrl-C.")
    ] = False,
    every: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="With --random: from one to the next.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="With --random: end after so many.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --random: the same seed chooses the same processes.")
    ] = None,
    endpoint: Http = HTTP,
) -> None:
    """Send a signal to a node of a cluster on this machine; what ends is started again by the supervisor."""
    number = signals.Signals[f"SIG{signal}"]
    if by_chance:
        if target is not None:
            raise WrongUsage("--random chooses the processes itself: leave out the target")
        if every is None:
            raise WrongUsage("--random needs --every SECONDS")
        Killer(endpoint, number, random.Random(seed)).run(every, count)  # noqa: S311 - nothing to be kept secret
    elif target is None:
        raise typer.BadParameter("say who gets the signal, or --random")
    elif (every, count, seed) != (None, None, None):
        raise WrongUsage("--every, --count and --seed are for --random")
    else:
        kill_one(endpoint, target, number)


def kill_one(endpoint: str, target: str, number: signals.Signals) -> None:
    told = ask(endpoint, "/v1/cluster")
    node = find_node(told, target)
    if node["id"] == FLIGHTS and "host" in node:
        require_this_machine(node["host"])
    else:
        require_local(endpoint)
    if node["pid"] is None:
        raise CommandFailed(f"{name_of(node)} is down: it has no process")
    signal_to(node, number)
    print(line_of(node, number))


class Killer:
    """Sends its signal to one process after the other. At most one is paused by it at a time."""

    def __init__(self, endpoint: str, number: signals.Signals, chance: random.Random) -> None:
        self._endpoint = endpoint
        self._number = number
        self._chance = chance
        self._paused: dict[str, Any] | None = None

    def run(self, every_s: float, count: int | None) -> None:
        """Until so many got the signal, or until SIGINT or SIGTERM. Who is paused then goes on."""
        ask(self._endpoint, "/v1/cluster")  # if there is none, that is said at once
        require_local(self._endpoint)
        before = signals.signal(signals.SIGTERM, signals.default_int_handler)
        try:
            due = time.monotonic()
            while count is None or count > 0:
                self._strike()
                count = None if count is None else count - 1
                due += every_s
                if count != 0 or self._paused is not None:
                    time.sleep(max(0.0, due - time.monotonic()))
        except KeyboardInterrupt:
            pass  # that is how it is meant to end
        finally:
            self._resume()
            signals.signal(signals.SIGTERM, before)

    def _strike(self) -> None:
        """One process, as soon as there is one that runs."""
        self._resume()
        deadline = time.monotonic() + SILENCE_S_MAX
        while True:
            try:
                node = choose(ask(self._endpoint, "/v1/cluster"), self._chance)
                signal_to(node, self._number)
            except (NoEndpoint, NobodyRuns, ProcessEnded):
                if time.monotonic() >= deadline:
                    raise
                time.sleep(LOOK_AGAIN_S)
            else:
                break
        if self._number == signals.SIGSTOP:
            self._paused = node
        print(line_of(node, self._number), flush=True)

    def _resume(self) -> None:
        node, self._paused = self._paused, None
        if node is not None:
            with suppress(CommandFailed):  # it has ended
                signal_to(node, signals.SIGCONT)


def choose(told: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A process of the cluster that runs on this machine; never the supervisor.

    The draw is among all processes, so that one which happens to be down does not change later draws.
    """
    nodes: list[dict[str, Any]] = [*told.get("brokers", []), *told.get("nodes", [])]
    known = sorted((each for each in nodes if each["id"] != SUPERVISOR), key=lambda each: str(each["id"]))
    here = socket.gethostname()
    for node in chance.sample(known, len(known)):
        is_elsewhere = node["id"] == FLIGHTS and node.get("host", here) != here
        if node["pid"] is not None and node["state"] in ALIVE and not is_elsewhere:
            return node
    raise NobodyRuns("no process of the cluster is running")


def line_of(node: dict[str, Any], number: signals.Signals) -> str:
    return f"sent {number.name} to {name_of(node)}, process {node['pid']}"


def signal_to(node: dict[str, Any], number: signals.Signals) -> None:
    send(node["pid"], number, name_of(node), marked(node))


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
        raise ProcessEnded(f"{name} has just ended: there is no process {pid}") from error
    except PermissionError as error:
        raise CommandFailed(f"{name} belongs to another user") from error
