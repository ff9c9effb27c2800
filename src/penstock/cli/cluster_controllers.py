"""`penstock cluster recover controllers`: one controller goes on, the others have lost their disks.

It works on the data folder of the node that is left, which must not run meanwhile.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, Final

import typer

from penstock.cli.node_file import read_node_file
from penstock.cli.output import Cell, CommandFailed, counted, print_json, print_table
from penstock.config import NodeConfig

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.controller.reseating import Survivor

CONNECT_S_MAX: Final = 1.0


def recover_controllers(file: Path | None, *, yes: bool, json: bool) -> None:
    if file is None:
        raise CommandFailed("recover controllers needs --config FILE: the node that has its data, stopped")
    config = NodeConfig(**read_node_file(file))
    if not config.is_controller or config.is_alone:
        raise CommandFailed(f"node {config.node_id} is not one of several controllers")
    if config.storage == "memory":
        raise CommandFailed(f"node {config.node_id} keeps its data in memory: nothing is left of them")
    from penstock.broker.node import open_storage
    from penstock.controller.reseating import look_at, make_only_voter
    from penstock.storage import StorageError

    try:
        storage = open_storage(config)
    except StorageError as error:
        raise CommandFailed(f"{error}; the node must not run meanwhile") from error
    try:
        survivor = look_at(storage, now_ms())
        if not json:
            show(config, survivor)
        if not yes:
            if json:
                raise CommandFailed("--json needs --yes: nobody would see the question")
            typer.confirm("Go on with this node alone?", abort=True)
        make_only_voter(storage, config.node_id, now_ms())
    except StorageError as error:
        raise CommandFailed(str(error)) from error
    finally:
        storage.close()
    if json:
        print_json(as_json(config, survivor))
    else:
        print(f"node {config.node_id} is the only controller now: start it, then the others with empty disks")


def show(config: NodeConfig, survivor: Survivor) -> None:
    rows: list[list[Cell]] = []
    for node_id, (host, port) in config.controllers.items():
        if node_id == config.node_id:
            rows.append([node_id, f"{host}:{port}", "this node", survivor.epoch, survivor.end_offset])
        else:
            state = "running" if is_listening(host, port) else "away"
            rows.append([node_id, f"{host}:{port}", state, None, None])
    print_table(["CONTROLLER", "ADDRESS", "STATE", "EPOCH", "END"], rows)
    topics, brokers = len(survivor.image.topics), len(survivor.image.brokers)
    print(f"This node's metadata know {counted(topics, 'topic')} and {counted(brokers, 'broker')}.")
    others = ", ".join(str(node_id) for node_id in survivor.voters.seats if node_id != config.node_id)
    print(
        f"What happened after its last entry is lost. Controllers {others or 'none'} must have lost their"
        " disks for good: started with the ones that they had, they could be a second cluster."
    )


def as_json(config: NodeConfig, survivor: Survivor) -> dict[str, Any]:
    return {
        "controller": config.node_id,
        "epoch": survivor.epoch,
        "end": survivor.end_offset,
        "topics": len(survivor.image.topics),
        "brokers": len(survivor.image.brokers),
        "controllers_before": list(survivor.voters.seats),
    }


def is_listening(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), CONNECT_S_MAX).close()
    except OSError:
        return False
    return True


def now_ms() -> int:
    return time.time_ns() // 1_000_000
