"""`penstock up` with several nodes: what the options mean to a supervisor.

Settings that belong to one node alone have no place in a file for all: the supervisor decides those.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli.node_file import NodeFileError, read_rack
from penstock.cli.output import CommandFailed
from penstock.config import NodeConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    OnReady = Callable[[str, str | None], None]

OF_ONE_NODE = ("id", "roles", "advertised", "controllers", "rack", "cluster_id", "supervisor")
OF_THE_SUPERVISOR = ("listeners", "data", "http_host", "http_port", "http_names")


def is_meant(data: Path, brokers: int | None, controllers: int | None) -> bool:
    """Also without an option, when the folder holds a cluster already."""
    if (brokers is not None and brokers > 1) or controllers is not None:
        return True
    return (data / "cluster.json").exists()


def parse_racks(text: str | None) -> tuple[str, ...] | None:
    """`a,b,c`; of an empty text none, which takes the racks away that were recorded."""
    if not text:
        return None if text is None else ()
    try:
        return tuple(read_rack(each.strip()) for each in text.split(","))
    except NodeFileError as error:
        raise typer.BadParameter(f"{text!r}: {error}", param_hint="--racks") from error


def recorded_host(data: Path) -> str | None:
    """Where the nodes of a cluster in this folder listen; None if there is none, or none that can be read."""
    if not (data / "cluster.json").exists():
        return None
    from penstock.supervisor.folder import ClusterFolder

    with errors_as_lines():
        layout = ClusterFolder(data).read_layout()
    return None if layout is None else layout.nodes[0].host


def run(
    config: Path | None,
    settings: dict[str, Any],
    brokers: int | None,
    controllers: int | None,
    on_ready: OnReady,
    *,
    has_gateway: bool,
    token_file: Path | None,
    flights: bool,
    racks: tuple[str, ...] | None,
) -> None:
    """`settings` are those of a node by the names of NodeConfig, from `config` and options."""
    from penstock.supervisor.layout import Wanted
    from penstock.supervisor.start import ClusterOptions, run_cluster

    default = NodeConfig()
    wanted = Wanted(
        brokers=brokers,
        controllers=controllers,
        host=settings.get("host"),
        port=settings.get("port"),
        racks=racks,
    )
    options = ClusterOptions(
        data=settings.get("data", default.data),
        wanted=wanted,
        host=default.host,
        port=default.port,
        http_port=settings.get("http_port", default.http_port),
        has_gateway=has_gateway,
        token_file=token_file,
        flights=flights,
        shared=shared_table(config, settings),
    )
    with errors_as_lines():
        run_cluster(options, on_ready)


def go_on(data: Path, on_ready: OnReady) -> None:
    """Take over the cluster of a supervisor that was killed."""
    from penstock.supervisor.start import run_successor

    with errors_as_lines():
        run_successor(data, on_ready)


@contextmanager
def errors_as_lines() -> Iterator[None]:
    from penstock.supervisor.errors import SupervisorError

    try:
        yield
    except SupervisorError as error:
        raise CommandFailed(str(error)) from error


def shared_table(config: Path | None, settings: dict[str, Any]) -> dict[str, Any]:
    """What every node's file gets from the user's, which has been read and found good, and from options."""
    shared: dict[str, Any] = {}
    if config is not None:
        import tomllib

        shared = tomllib.loads(config.read_text(encoding="utf-8"))
        for name in OF_ONE_NODE:
            if name in shared:
                raise CommandFailed(f"{config}: {name}: belongs to one node, and this file is for several")
        for name in OF_THE_SUPERVISOR:
            shared.pop(name, None)
    if "topics" in shared:
        shared["topics"] = settings["topic_defaults"]  # as strings, whatever they were in the file
    shared.update({name: settings[name] for name in ("storage", "flush") if name in settings})
    return shared
