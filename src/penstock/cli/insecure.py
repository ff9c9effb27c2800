"""Listening to other machines, as long as nothing keeps them out: only when that is meant."""

import socket
from typing import Annotated

import typer

from penstock import hosts
from penstock.cli.output import CommandFailed, WrongUsage

Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen to other machines, although nothing keeps anybody out.")
]


def require_insecure(insecure: bool, *listening: str | None) -> None:
    """Wrong usage, unless it is said or all of these addresses are this machine's alone."""
    for host in listening:
        if host is not None and not insecure and not is_loopback(host):
            raise WrongUsage(
                f"{host} can be reached from other machines, and nothing keeps anybody out;"
                " --insecure says that this is meant"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if hosts.is_loopback(host):
        return True
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        raise CommandFailed(f"{host!r} is not a name or an address of this machine") from None
    return all(hosts.is_loopback(str(address)) for address in found)
