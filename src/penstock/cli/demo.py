"""`penstock demo`: the main job, with everything that belongs to it, from one terminal."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import CommandFailed
from penstock.cli.private import keep_private

CARS = 2_000
RATE = 1.0


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.5, help="How long, once there is heat on the map.", show_default="until it is stopped"
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the console.")] = False,
    cars: Annotated[int, typer.Option(min=1, help="Number of cars.")] = CARS,
    rate: Annotated[float, typer.Option(min=0.01, max=20.0, help="Positions per car and second.")] = RATE,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_533, help="Port of the first of three brokers.", show_default="9092"),
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port of the console.", show_default="8080")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="Keep the data here.", show_default="a folder that is removed at the end"
        ),
    ] = None,
) -> None:
    """Run a cluster, cars, the heat map on Spark and a flights job, and show them in the console."""
    from penstock.demo.errors import DemoError
    from penstock.demo.run import run
    from penstock.demo.stage import Wanted

    keep_private(data)
    is_watched = sys.stdout is not None and sys.stdout.isatty()
    wanted = Wanted(seconds=seconds, open_browser=is_watched and not no_browser, cars=cars, rate=rate)
    try:
        run(wanted, data=data, port=port, http_port=http_port)
    except DemoError as error:
        raise CommandFailed(str(error)) from error
