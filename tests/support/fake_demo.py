"""The demo with stand-ins for its parts: everything of `penstock demo` but the parts themselves.

    python -m tests.support.fake_demo [--seconds S] [--refuse PART] [--fault FAULT]

The cars count up in a file, and in another that stands for the log; the heat map copies the log's count to a
third, and the cluster serves that over HTTP as the gateway would. Each part writes its pid to `NAME.pid` in
the demo's folder. With a fault a position of each tick is lost, or is there twice, on its way.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.cli.app import complain
from penstock.demo import finish, plan
from penstock.demo.errors import DemoError
from penstock.demo.run import run
from penstock.demo.stage import Wanted
from penstock.demo.verdict import Log
from tests.support.fake_demo_part import FAULTS, NO_FAULT, read_count

SETTLED_S, HOPELESS_S = 0.7, 2.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--refuse", default="")
    parser.add_argument("--fault", choices=FAULTS, default=NO_FAULT)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    folders: list[Path] = []
    finish.SETTLED_S = SETTLED_S  # type: ignore[misc] # no Spark here that might still be at it
    if options.fault != NO_FAULT:
        finish.COUNT_S_MAX = HOPELESS_S  # type: ignore[misc] # a map that loses something never catches up

    def make_parts(places: plan.Places, addresses: plan.Addresses, **asked: Any) -> list[plan.Part]:
        folders.append(places.folder)

        def stand_in(part: plan.Part) -> plan.Part:
            role = "refuse" if part.name == options.refuse else part.name
            results = str(places.results(asked["run"]))
            own = [str(places.folder), str(addresses.http_port), results, options.fault]
            command = (sys.executable, "-m", "tests.support.fake_demo_part", role, *own)
            return replace(part, command=command)

        return [stand_in(part) for part in plan.parts(places, addresses, **asked)]

    wanted = Wanted(seconds=options.seconds, open_browser=False, cars=10, rate=1.0)
    try:
        run(
            wanted,
            data=options.data,
            port=0,
            http_port=0,
            make_parts=make_parts,
            make_topics=lambda _: FakeTopics(folders[0]),
        )
    except DemoError as error:
        return complain(str(error))
    return 0


class FakeTopics:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def log(self) -> Log:
        records, repeated = read_count(self._folder / "log"), read_count(self._folder / "repeated")
        return Log(records, repeated, records, repeated)

    def cells(self) -> None:
        return None


if __name__ == "__main__":
    sys.exit(main())
