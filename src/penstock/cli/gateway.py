"""`penstock gateway`: HTTP for a cluster, Penstock's or Apache Kafka's."""

import dataclasses
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.broker import node_status
from penstock.cli.insecure import Insecure, is_loopback, require_insecure
from penstock.cli.options import BOOTSTRAP, Bootstrap, parse_settings
from penstock.cli.output import CommandFailed
from penstock.cli.private import keep_private

if TYPE_CHECKING:
    from penstock.gateway.settings import GatewayLimits

PORT = 8080


def register(app: typer.Typer) -> None:
    app.command()(gateway)


def gateway(
    bootstrap: Bootstrap = BOOTSTRAP,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    http_port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on.")] = PORT,
    http_token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Who may use it: lines `read|write|admin TOKEN`."),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Serve other machines without tokens: everybody may do all.")
    ] = False,
    insecure: Insecure = False,
    http_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --no-auth, it answers to this name, too; repeatable."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web pages from there may use it, too; repeatable."),
    ] = None,
    rack: Annotated[
        str | None, typer.Option(help="Where the gateway runs: it reads from replicas of the same rack.")
    ] = None,
    traffic_participation: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=86_400,
            metavar="SECONDS",
            envvar="PENSTOCK_TRAFFIC_PARTICIPATION",
            help="Who reads traffic here must have contributed a position so recently; 0: everybody may read."
            " Without it the cluster's rule counts, see penstock traffic participation.",
        ),
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Change a limit; repeatable.")
    ] = None,
    admin_url: Annotated[str | None, typer.Option(hidden=True)] = None,
    status_folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a gateway in the foreground until SIGINT or SIGTERM."""
    keep_private()
    limits = parse_limits(limit)
    require_insecure(insecure, host)
    if http_token_file is None and not no_auth and not is_loopback(host):
        raise CommandFailed(
            f"{host} can be reached from other machines: give --http-token-file, or --no-auth if that is fine"
        )
    from penstock.gateway.access import TokenFileError
    from penstock.gateway.server import run_gateway
    from penstock.gateway.settings import GatewaySettings

    settings = GatewaySettings(
        bootstrap=bootstrap,
        host=host,
        http_port=http_port,
        http_token_file=http_token_file,
        no_auth=no_auth,
        hosts=(socket.gethostname(), *(http_name or ())),
        cors_origins=tuple(cors_origin or ()),
        rack=rack,
        admin_url=admin_url,
        traffic_participation_s=traffic_participation,
        limits=limits,
    )

    def on_ready(url: str) -> None:
        if status_folder is not None:
            tell_status(status_folder, bootstrap, url)
        print_ready(url)

    try:
        run_gateway(settings, on_ready)
    except TokenFileError as error:
        raise CommandFailed(str(error)) from error
    finally:
        if status_folder is not None:
            node_status.remove(status_folder)


def parse_limits(pairs: list[str] | None) -> "GatewayLimits":
    from penstock.gateway.settings import GatewayLimits

    kinds: dict[str, type[float]] = {
        name: type(value) for name, value in dataclasses.asdict(GatewayLimits()).items()
    }
    given: dict[str, float] = {}
    for name, text in parse_settings(pairs).items():
        if name not in kinds:
            raise typer.BadParameter(f"there is no limit {name!r}; there are {', '.join(kinds)}")
        try:
            given[name] = kinds[name](text)
        except ValueError:
            raise typer.BadParameter(f"{name}: {text!r} is not a number") from None
        if given[name] < 0:
            raise typer.BadParameter(f"{name}: it must not be negative")
    return GatewayLimits(**given)  # type: ignore[arg-type]  # each is of its field's own type


def tell_status(folder: Path, bootstrap: str, url: str) -> None:
    """To the supervisor that started it, or a later one."""
    folder.mkdir(parents=True, exist_ok=True)
    now_ms = time.time_ns() // 1_000_000
    node_status.write(folder, node_id=0, kafka=bootstrap, http=url, started_at_ms=now_ms)


def print_ready(url: str) -> None:
    print(f"ready http={url}", flush=True)
