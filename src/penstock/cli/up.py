"""`penstock up` and `penstock broker`: a node, or a cluster of nodes, in the foreground.

Nothing heavy is imported before the node itself: from here to `ready` must take a fraction of a second.
"""

import socket
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli import up_cluster
from penstock.cli.insecure import Insecure, require_insecure
from penstock.cli.node_file import HOST, STORAGES, read_node_file, read_storage
from penstock.cli.output import CommandFailed
from penstock.cli.private import keep_private, warn_of_password
from penstock.config import NodeConfig
from penstock.hosts import LOOPBACK
from penstock.listening import BACKLOG, bind

if TYPE_CHECKING:
    from penstock.broker.node import Beside

WILDCARDS = {socket.AF_INET: bytes(4), socket.AF_INET6: bytes(16)}


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(broker)


def up(
    data: Annotated[
        Path | None, typer.Option(file_okay=False, help="Data folder.", show_default="./penstock-data")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port for Kafka clients.", show_default="9092")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port of the HTTP endpoint.", show_default="8080")
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of brokers, each a process of its own.", show_default="1"),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of dedicated controllers; without, brokers are controllers too."),
    ] = None,
    racks: Annotated[
        str | None,
        typer.Option(metavar="NAME[,NAME…]", help="Racks in which the brokers of a cluster stand, in turn."),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="file|memory|postgresql://…",
            help="Where logs are kept.",
            show_default="file",
            envvar="PENSTOCK_STORAGE",
        ),
    ] = None,
    flush: Annotated[
        Literal["commit", "os"] | None,
        typer.Option(
            help="What an acknowledgement means: on disk, or handed to the operating system.",
            show_default="commit",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings from this file; options win over it.", metavar="FILE")
    ] = None,
    no_http: Annotated[bool, typer.Option("--no-http", help="Without anything on HTTP.")] = False,
    no_gateway: Annotated[
        bool, typer.Option("--no-gateway", help="On HTTP only health, metrics and the state of the cluster.")
    ] = False,
    http_token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Who may use the gateway: lines `read|write|admin TOKEN`."),
    ] = None,
    flights: Annotated[
        bool, typer.Option("--flights", help="Also run the Flights service; needs penstock[spark].")
    ] = False,
    insecure: Insecure = False,
    adopt: Annotated[bool, typer.Option("--adopt", hidden=True)] = False,
) -> None:
    """Run Penstock in the foreground until SIGINT or SIGTERM."""
    in_racks = up_cluster.parse_racks(racks)
    settings = read_node_file(config) if config else {}
    given = {
        "data": data,
        "host": host if host is None else parse_host(host),
        "port": port,
        "http_port": http_port,
        "storage": storage if storage is None else parse_storage(storage),
        "flush": flush,
    }
    settings.update({name: value for name, value in given.items() if value is not None})
    if no_http:
        settings["http_port"] = None
    if insecure:
        settings["insecure"] = True
    folder = settings.get("data", NodeConfig().data)
    if not adopt:
        check_addresses(settings, up_cluster.recorded_host(folder))
    keep_private(folder)
    if adopt:
        up_cluster.go_on(folder, print_ready)
    elif up_cluster.is_meant(folder, brokers, controllers):
        up_cluster.run(
            config,
            settings,
            brokers,
            controllers,
            print_ready,
            has_gateway=not no_gateway,
            token_file=http_token_file,
            flights=flights,
            racks=in_racks,
        )
    elif racks is not None:
        raise typer.BadParameter("one node alone needs none; see --brokers", param_hint="--racks")
    else:
        run_one(settings, has_gateway=not no_gateway, token_file=http_token_file, flights=flights)


def parse_host(text: str) -> str:
    if not HOST.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is not a name or an address", param_hint="--host")
    return text


def parse_storage(text: str) -> str:
    if text not in STORAGES and "://" not in text:
        # What was meant as an address may hold a password.
        shown = "it" if "@" in text else repr(text)
        raise typer.BadParameter(f"{shown} is not one of {', '.join(STORAGES)}", param_hint="--storage")
    return read_storage(text)


def check_addresses(settings: dict[str, Any], recorded: str | None = None) -> None:
    """`recorded`: where the nodes of the folder listen, if they are not told anything else."""
    host = settings.get("host", recorded)
    require_insecure(settings.get("insecure", False), host, settings.get("http_host"))


def broker(
    config: Annotated[Path, typer.Option(metavar="FILE", help="The node's file, see the guide.")],
    insecure: Insecure = False,
) -> None:
    """Run one node of a cluster, as its file says."""
    settings = read_node_file(config)
    if insecure:
        settings["insecure"] = True
    check_addresses(settings)
    keep_private(settings.get("data", NodeConfig().data))
    run(settings, listening=listen_early(settings))


def listen_early(settings: dict[str, Any]) -> socket.socket | None:
    """The listening socket of a node of a cluster, before the imports, which take most of its start.

    A client whose connection is refused comes back after a time that doubles; one that is taken waits for the
    answer. What keeps the node from listening is told when it is this port's turn.
    """
    if not settings.get("controllers"):
        return None
    default = NodeConfig()
    try:
        listening = bind(settings.get("host", default.host), settings.get("port", default.port))
    except OSError:
        return None
    listening.listen(BACKLOG)
    return listening


def run_one(settings: dict[str, Any], *, has_gateway: bool, token_file: Path | None, flights: bool) -> None:
    """One node and what runs beside it: the gateway, which has the HTTP port and asks the node at another
    one, and the Flights service."""
    config = NodeConfig(**settings)
    beside: Beside | None = None
    if has_gateway and config.http_port is not None:
        from penstock.cli.gateway_child import gateway_beside

        tokens = ("--http-token-file", str(token_file)) if token_file is not None else ()
        # Without tokens it is for this machine only, wherever Kafka clients may come from.
        host = config.host if token_file is not None else LOOPBACK
        options = (*tokens, "--insecure") if config.insecure else tokens
        beside = partial(gateway_beside, host=host, http_port=config.http_port, options=options)
        settings = {**settings, "http_host": LOOPBACK, "http_port": 0}
    if flights:
        if config.http_port is None:
            raise typer.BadParameter("one node runs it with --http-port only", param_hint="--flights")
        from penstock.cli.flights_child import flights_beside

        beside = partial(flights_beside, data=config.data / "flights", beside=beside)
    run(settings, beside)


def run(
    settings: dict[str, Any], beside: "Beside | None" = None, listening: socket.socket | None = None
) -> None:
    from penstock.broker.node import run_node
    from penstock.storage import StorageError

    config = NodeConfig(**settings)
    if config.advertised_host is None and is_wildcard(config.host):
        config = replace(config, advertised_host=socket.gethostname())
    try:
        run_node(config, on_ready=print_ready, beside=beside, listening=listening)
    except StorageError as error:
        raise CommandFailed(str(error)) from error


def is_wildcard(host: str) -> bool:
    """Whether it stands for all addresses of the machine, so that no client could connect to it by name."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.inet_pton(family, host) == WILDCARDS[family]
    except OSError:  # a name
        return False


def print_ready(kafka_address: str, http_url: str | None) -> None:
    print(f"ready kafka={kafka_address}" + (f" http={http_url}" if http_url else ""), flush=True)
    warn_of_password()
