"""Servers of the topic queue: Penstock's gateway before a file log or PostgreSQL, and the plain one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.peers import penstock, penstock_postgres
from bench.peers.base import Peer
from bench.process import free_port, listening, require_module, spawn, wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPeer(Peer):
    http_port: int
    plain_port: int | None = None
    """Of the plain server on the same database."""


def start_on_files(directory: Path) -> HttpPeer:
    return with_gateway(penstock.start(directory, flush="commit"))


def start_on_postgres(directory: Path) -> HttpPeer:
    """One database server for both: Penstock behind its gateway, and Flask with a database of its own."""
    for module in ("flask", "sqlalchemy", "waitress"):
        require_module(module)
    broker = penstock_postgres.start(directory, flush="commit")
    peer = with_gateway(broker)
    with psycopg.connect(broker.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE plain")
    url = broker.url.replace("postgresql://", "postgresql+psycopg://").replace("/postgres?", "/plain?")
    port = free_port()
    argv = [sys.executable, "-m", "bench.peers.flask_queue", url, str(port)]
    process = spawn(argv, directory / "flask.log")
    wait_until(lambda: listening(port), "the plain server", process)
    return HttpPeer(
        name=peer.name,
        version=peer.version,
        port=peer.port,
        process=peer.process,
        directory=directory,
        helpers=(process, *peer.helpers),
        http_port=peer.http_port,
        plain_port=port,
    )


def with_gateway(broker: Peer) -> HttpPeer:
    port, log = free_port(), broker.directory / "gateway.log"
    argv = [sys.executable, "-m", "penstock", "gateway", "--bootstrap", broker.bootstrap]
    process = spawn([*argv, "--http-port", str(port)], log)
    wait_until(lambda: b"ready http=" in log.read_bytes(), "penstock gateway", process)
    return HttpPeer(
        name=broker.name,
        version=broker.version,
        port=broker.port,
        process=process,
        directory=broker.directory,
        helpers=(broker.process, *broker.helpers),
        http_port=port,
    )
