"""Signals to processes of a cluster on this machine, as `penstock cluster kill` sends them."""

from __future__ import annotations

import asyncio
import os
import re
import signal as signals
import socket
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from penstock import signalling
from penstock.gateway.errors import ApiFailure
from penstock.signalling import WrongProcessError

if TYPE_CHECKING:
    from penstock.gateway.kafka.admin import KafkaAdmin

SIGNALS: Final = ("KILL", "STOP", "CONT", "TERM")
FLIGHTS: Final = "flights"
SERVICES: Final = ("supervisor", "gateway", FLIGHTS)
CONTROLLER: Final = "controller"
LEADER: Final = "leader:"
TARGET: Final = re.compile("[0-9]{1,10}|leader:.+|controller|" + "|".join(SERVICES))
LAST_WORDS_S: Final = 0.2
"""For the answer to leave, when a gateway is its own target."""


class Process(NamedTuple):
    name: str
    pid: int
    host: str | None = None
    """Where it runs, if it told that itself."""
    command: bytes = b"penstock"
    """What its command line has in it, so that a pid of old is not taken for it."""


def check_target(target: str) -> str:
    if not TARGET.fullmatch(target):
        raise ApiFailure(400, "'target' is none of NODE_ID, leader:TOPIC, controller, " + ", ".join(SERVICES))
    return target


def require_local(url: str) -> None:
    """A pid says nothing about processes of another machine. Only own addresses can be bound to."""
    host = urlsplit(url).hostname or ""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError as error:
        raise ApiFailure(503, "not available: the cluster is not on the gateway's machine") from error


def require_this_machine(process: Process) -> None:
    if process.host != socket.gethostname():
        raise ApiFailure(503, f"not available: {process.name} runs on {process.host}")


async def find_process(told: dict[str, Any], target: str, admin: KafkaAdmin) -> Process:
    """By the state of the cluster as the admin endpoint tells it."""
    wanted: int | str
    if target.startswith(LEADER):
        partitions = await admin.describe(target.removeprefix(LEADER))
        if partitions[0].leader is None:
            raise ApiFailure(409, f"{target.removeprefix(LEADER)!r} has no leader at the moment")
        wanted = partitions[0].leader
    elif target == CONTROLLER:
        if told.get("controller") is None:
            raise ApiFailure(409, "there is no active controller at the moment")
        wanted = told["controller"]
    else:
        wanted = target if target in SERVICES else int(target)
    name = name_of(wanted)
    for node in [*told.get("brokers", []), *told.get("nodes", [])]:
        if node["id"] == wanted:
            if node["pid"] is None:
                raise ApiFailure(409, f"{name} is down, or its process is not known")
            command = FLIGHTS.encode() if wanted == FLIGHTS else b"penstock"
            return Process(name, node["pid"], node.get("host") if wanted == FLIGHTS else None, command)
    raise ApiFailure(404, f"{name} is not part of this cluster")


def name_of(wanted: int | str) -> str:
    if isinstance(wanted, int):
        return f"node {wanted}"
    return "the Flights service" if wanted == FLIGHTS else f"the {wanted}"


def send_signal(process: Process, signal: str) -> None:
    number = signals.Signals[f"SIG{signal}"]
    try:
        if process.pid == os.getpid():
            asyncio.get_running_loop().call_later(LAST_WORDS_S, os.kill, process.pid, number)
        else:
            signalling.send_signal(process.pid, number, process.command)
    except WrongProcessError as error:
        message = f"process {process.pid} is not {process.name}: what is known of it is old"
        raise ApiFailure(409, message) from error
    except ProcessLookupError as error:
        raise ApiFailure(409, f"{process.name} has just ended") from error
    except PermissionError as error:
        raise ApiFailure(503, f"not available: {process.name} belongs to another user") from error
