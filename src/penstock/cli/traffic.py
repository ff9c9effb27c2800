"""`penstock traffic`: simulated cars, and the heat map that Spark makes of their positions."""

import json as json_module
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import traffic_heatmap
from penstock.cli.flights import progress_bar
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json
from penstock.cli.output import CommandFailed, print_json

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from penstock.traffic.client import TrafficClient
    from penstock.traffic.grid import Quadrant
    from penstock.traffic.simulator.run import Progress, Stop
    from penstock.traffic.simulator.settings import Parts, Settings
    from penstock.traffic.simulator.truth import Truth

CARS_MAX = 1_000_000
RATE_MAX = 20.0
"""No car has more than one position in a step of the simulation."""
DAY_S = 900.0
DAY_S_MIN = 60.0
WRITE_S_MAX = 60.0
"""For so long a write waits for brokers that are away."""

traffic = typer.Typer(name="traffic", help="Cars, and a live heat map of them.", no_args_is_help=True)


traffic_heatmap.register(traffic)


def register(app: typer.Typer) -> None:
    app.add_typer(traffic)


def check_positive(value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise typer.BadParameter("it must be more than 0")
    return value


def check_share(value: float) -> float:
    if not 0 <= value <= 1:
        raise typer.BadParameter("it must be from 0 to 1")
    return value


def check_truth(value: str | None) -> str | None:
    """Before the cars start, and not when everything is counted."""
    if value is not None and (os.path.isdir(value) or not os.path.isdir(os.path.dirname(value) or ".")):
        raise typer.BadParameter(f"{value!r} is not a file in a folder that exists")
    return value


def check_quadrants(value: str | None) -> str | None:
    if value is not None:
        parse_quadrants(value)
    return value


def parse_quadrants(text: str) -> "tuple[Quadrant, ...]":
    """`r0.c0,r1.c0` as quadrants."""
    from penstock.traffic.grid import Quadrant

    found = []
    for name in text.split(","):
        parts = re.fullmatch(r"(?:traffic\.)?r([0-9]{1,4})\.c([0-9]{1,4})", name.strip())
        if parts is None:
            raise typer.BadParameter(f"{name.strip()!r} is not of the form rROW.cCOLUMN")
        found.append(Quadrant(int(parts[1]), int(parts[2])))
    return tuple(found)


def share(what: str) -> Any:
    return typer.Option(metavar="F", callback=check_share, help=f"{what}, as a share of the good ones.")


@traffic.command()
def participation(
    seconds: Annotated[
        float | None, typer.Argument(min=0, max=86_400, help="0: everybody may read.", show_default=False)
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Show or set how recently who reads traffic must have contributed a position of their own.

    It is the rule of the cluster: all its gateways and clients go by it.
    """
    from penstock.traffic import PenstockError, publish_participation, read_participation

    try:
        if seconds is not None:
            publish_participation(bootstrap, seconds)
        found = read_participation(bootstrap)
    except (PenstockError, ValueError) as error:
        raise CommandFailed(str(error)) from error
    if json:
        print_json({"window_s": found})
    else:
        print(f"{found:g} s" if found else "everybody may read")


@traffic.command()
def simulate(
    bootstrap: Bootstrap = BOOTSTRAP,
    cars: Annotated[int, typer.Option(min=1, max=CARS_MAX, metavar="N", help="Number of cars.")] = 2_000,
    rate: Annotated[
        float,
        typer.Option(
            max=RATE_MAX, metavar="HZ", callback=check_positive, help="Positions per car and second."
        ),
    ] = 1.0,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S", callback=check_positive, help="Ends after so long; without it, when stopped."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed, the same cars. Simulators side by side need different ones.")
    ] = 0,
    duplicates: Annotated[float, share("Positions written again")] = 0.0,
    late: Annotated[float, share("Positions with an old timestamp")] = 0.0,
    broken: Annotated[float, share("Records that are not positions")] = 0.0,
    quadrants: Annotated[
        str | None,
        typer.Option(
            metavar="rR.cC[,…]", callback=check_quadrants, help="Cars live and drive in these quadrants only."
        ),
    ] = None,
    day: Annotated[
        float,
        typer.Option(
            min=DAY_S_MIN, metavar="S", callback=check_positive, help="How long 24 hours of the city take."
        ),
    ] = DAY_S,
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", callback=check_truth, help="Gets what was written, as JSON, at the end."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Drive cars through a city, and write their positions."""
    from penstock.client.errors import PenstockError
    from penstock.traffic.simulator.run import GivenUp
    from penstock.traffic.simulator.settings import Settings

    settings = Settings(
        cars=cars,
        rate=rate,
        seed=seed,
        day_s=day,
        duplicates=duplicates,
        late=late,
        broken=broken,
        quadrants=parse_quadrants(quadrants) if quadrants is not None else (),
        with_cells=truth is not None,
    )
    try:
        found, left_out_s = drive(bootstrap, settings, seconds)
    except PenstockError as error:
        raise CommandFailed(str(error)) from error
    except GivenUp:
        print("stopped before the first car could start", file=sys.stderr)
        return
    if truth is not None:
        write_truth(truth, found)
    if json:
        print_json({**found.counts(), "left_out_seconds": round(left_out_s, 3)})
    else:
        print(summary(found, left_out_s))


def drive(bootstrap: str, settings: "Settings", seconds: float | None) -> "tuple[Truth, float]":
    """What was written, and how many seconds were left out because brokers or this machine were too slow."""
    from penstock.cli.kafka import require_reachable
    from penstock.traffic.client import TrafficClient
    from penstock.traffic.simulator.run import Simulation, Stop

    stop = Stop()
    with (
        stopped_by_signals(stop),
        TrafficClient(bootstrap, f"simulator-{settings.seed}", timeout_s=WRITE_S_MAX) as client,
        progress_bar() as bar,
    ):
        require_reachable(bootstrap)
        with stop.waiting():
            parts = prepare(bootstrap, client, settings)
        simulation = Simulation(client, parts, stop, progress=shown(bar, seconds), failed=complain(bar))
        simulation.run(seconds)
    return parts.truth, simulation.left_out_s


def prepare(bootstrap: str, client: "TrafficClient", settings: "Settings") -> "Parts":
    """The cars, on topics that exist and on streets that everybody can see."""
    from penstock.traffic.city_map import publish_map
    from penstock.traffic.simulator.network import build_network
    from penstock.traffic.simulator.settings import make_parts
    from penstock.traffic.simulator.streets import streets_geojson

    grid = client.grid
    network = build_network(grid)
    parts = make_parts(settings, network, grid)
    client.ensure_topics()
    publish_map(bootstrap, grid, streets_geojson(network, grid), timeout_s=WRITE_S_MAX)
    return parts


def shown(bar: "Bar | None", seconds: float | None) -> "Callable[[Progress], None]":
    if bar is None:

        def say(progress: "Progress") -> None:
            print(progress_line(progress), file=sys.stderr, flush=True)

        return say
    task = bar.add_task("starting", total=seconds)

    def move(progress: "Progress") -> None:
        text = f"{progress.clock} in the city, {progress_line(progress)}"
        bar.update(task, description=text, completed=progress.seconds)

    return move


def progress_line(progress: "Progress") -> str:
    line = f"sent {progress.sent} ({progress.per_second:.0f} per second)"
    return f"{line}, behind, {progress.left_out_s:.1f} s left out" if progress.behind else line


def complain(bar: "Bar | None") -> Callable[[str], None]:
    def say(line: str) -> None:
        if bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            bar.console.print(line, markup=False, highlight=False)

    return say


@contextmanager
def stopped_by_signals(stop: "Stop") -> Iterator[None]:
    """SIGINT and SIGTERM are how it ends."""
    before = {
        number: signal.signal(number, lambda *_: stop.ask()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def write_truth(path: str, truth: "Truth") -> None:
    """All of it or nothing: whoever waits for the file must not read half of it."""
    unfinished = f"{path}.{os.getpid()}.tmp"
    with open(unfinished, "w", encoding="utf-8") as file:
        json_module.dump(truth.as_dict(), file)
    os.replace(unfinished, path)


def summary(truth: "Truth", left_out_s: float) -> str:
    counts = truth.counts()
    kinds = [f"{counts[kind]} {kind}" for kind in ("good", "duplicates", "late", "broken")]
    line = f"sent {counts['sent']}: {', '.join(kinds)}"
    if counts["unknown"]:
        line += f"; {counts['unknown']} more may be written or not"
    return f"{line}; {left_out_s:.1f} s left out" if left_out_s else line
