"""The processes of the demo, as data: pure.

A part waits for milestones. Most have the name of another part: a service is reached when it has said that it
is ready, a job when it is done. MAP is reached when there is heat on the map.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CLUSTER: Final = "cluster"
CARS: Final = "cars"
HEATMAP: Final = "heatmap"
FLIGHTS_DATA: Final = "flights-data"
FLIGHTS_SERVICE: Final = "flights-service"
FLIGHTS: Final = "flights"
MAP: Final = "map"
GATEWAY_READY: Final = re.compile(r"ready kafka=(?P<kafka>\S+) http=(?P<http>\S+)")
CARS_SENT: Final = re.compile(r"sent (?P<sent>[\d,]+) \((?P<rate>[\d,.]+) per second\)")
HEATMAP_READY: Final = re.compile(r"ready heatmap\b")
FLIGHTS_READY: Final = re.compile(r"ready flights\b")

SEED: Final = 0
OWN_CAR: Final = re.compile(rf"car-{SEED}-\d+")
"""How the simulator calls the cars of this seed."""
PENSTOCK: Final = (sys.executable, "-m", "penstock")
BROKERS: Final = 3
FLIGHTS_ROWS: Final = 20_000
FLIGHTS_NICENESS: Final = 5
"""The map is what people look at meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    title: str
    """As a sentence begins with it."""
    command: tuple[str, ...]
    ready: re.Pattern[str] | None = None
    """A line of its output. Of a job there is none: it is ready when it is done."""
    after: tuple[str, ...] = ()
    restarts_max: int = 3
    """In a row: a part that has been well for a while has them all again."""
    again: str = "starting again"
    """What happens when it ends, in words."""
    again_s: float = 1.0
    """Before it is started again for the first time; longer later."""
    is_essential: bool = False
    """Without it nothing else makes sense."""
    niceness: int = 0
    stop_s_max: float = 15.0

    @property
    def is_job(self) -> bool:
        return self.ready is None


@dataclass(frozen=True, slots=True)
class Places:
    """What lies where in the demo's folder."""

    folder: Path

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "heatmap"

    @property
    def truth(self) -> Path:
        """A file for each start of the cars: what they said at the end that they had sent."""
        return self.folder / "truth"

    @property
    def flights(self) -> Path:
        return self.folder / "flights"

    @property
    def flights_service(self) -> Path:
        return self.folder / "flights-service"

    def results(self, run: str) -> Path:
        return self.flights / run / "results"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def scratch(self) -> Path:
        return self.folder / "tmp"

    @property
    def own(self) -> list[Path]:
        """Those that the demo makes itself."""
        return [self.truth, self.flights, self.logs, self.scratch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    port: int
    """Of the first broker; the others have the ports that follow."""
    http_port: int

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + place}" for place in range(BROKERS))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"


def parts(places: Places, addresses: Addresses, *, cars: int, rate: float, run: str) -> list[Part]:
    """In the order in which they are started. `run` keeps the files of this demo apart from those before."""
    at = ("--bootstrap", addresses.bootstrap)
    data, results = places.flights / run / "data", places.results(run)
    ports = ("--port", str(addresses.port), "--http-port", str(addresses.http_port))
    return [
        Part(
            name=CLUSTER,
            title="the cluster's supervisor",
            # What is thrown away in the end need not survive a power cut, and two cores have enough to do.
            command=(
                *PENSTOCK, "up", "--brokers", str(BROKERS), "--data", str(places.cluster), *ports,
                "--flush", "os",
            ),
            ready=GATEWAY_READY,
            is_essential=True,
            # A supervisor that was killed is first of all the business of the controllers.
            again="the controllers call another one",
            again_s=8.0,
            stop_s_max=45.0,
        ),
        Part(
            name=HEATMAP,
            title="the heat map",
            command=(*PENSTOCK, "traffic", "heatmap", *at, "--checkpoint", str(places.checkpoint)),
            ready=HEATMAP_READY,
            after=(CLUSTER,),  # its topic gets as many replicas as there are brokers
            restarts_max=5,
            stop_s_max=30.0,
        ),
        Part(
            name=CARS,
            title="the cars",
            command=(
                *PENSTOCK, "traffic", "simulate", *at, "--cars", str(cars), "--rate", f"{rate:g}",
                "--seed", str(SEED), "--json",
            ),
            ready=CARS_SENT,
            after=(CLUSTER,),
        ),
        Part(
            name=FLIGHTS_DATA,
            title="the flights table",
            command=(*PENSTOCK, "flights", "generate", "--rows", str(FLIGHTS_ROWS), "--out", str(data)),
            after=(MAP,),
            restarts_max=1,
            niceness=FLIGHTS_NICENESS,
        ),
        Part(
            name=FLIGHTS_SERVICE,
            title="the flights service",
            command=(
                *PENSTOCK, "flights", "serve", *at, "--data", str(places.flights_service),
                "--master", "local[1]",
            ),
            ready=FLIGHTS_READY,
            after=(MAP,),
            niceness=FLIGHTS_NICENESS,
            stop_s_max=30.0,
        ),
        Part(
            name=FLIGHTS,
            title="the flights job",
            command=(
                *PENSTOCK, "flights", "submit", "--itineraries", str(data / "itineraries.csv"),
                "--airports", str(data / "airports.csv"), "--out", str(results), "--http", addresses.url,
            ),
            after=(FLIGHTS_DATA, FLIGHTS_SERVICE),
            restarts_max=1,
            niceness=FLIGHTS_NICENESS,
        ),
    ]  # fmt: skip
