"""This tree beside an earlier commit of it, in one run: what a change has cost, or brought.

`PENSTOCK_BENCH_BEFORE=abc09f7 python -m bench --only before`. CPU is the steadiest figure on a noisy machine.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench import targets
from bench.measure.consume import consume
from bench.measure.produce import SIZES, produce
from bench.measure.startup import started
from bench.peers import penstock
from bench.process import UnavailableError
from bench.table import Row, compared, unavailable

if TYPE_CHECKING:
    from bench.session import Session

NOW, BEFORE = "penstock-os", "penstock-before"


def measure(session: Session) -> list[Row]:
    if len(session.use(NOW, BEFORE)) < 2:
        return [unavailable("all", "before", None, " / ".join(session.missing.values()))]
    against = f"commit {penstock.BEFORE}"
    rows = []
    for label, size in SIZES.items():
        produced = session.interleaved((NOW, BEFORE), partial(produce, session, size=size))
        rates = [[run.rate for run in produced[name]] for name in (NOW, BEFORE)]
        cpu = [[run.cpu_us for run in produced[name]] for name in (NOW, BEFORE)]
        consumed = session.interleaved((NOW, BEFORE), partial(consume, session, size=size))
        rows += [
            compared(f"produce {label}, flush=os", against, *rates, "msg/s", targets.NEAR_FLAT),
            compared(f"server CPU per message, {label}", against, *cpu, "µs", targets.CPU_VS_BEFORE),
            compared(
                f"consume {label} from the start",
                against,
                consumed[NOW],
                consumed[BEFORE],
                "msg/s",
                targets.NEAR_FLAT,
            ),
        ]
    return [*rows, _startup(session, against)]


def _startup(session: Session, against: str) -> Row:
    session.use()
    try:
        source = penstock.source_before(session.directory("before"))
        runs = [
            (started(session, "penstock"), started(session, "before", source)) for _ in range(session.rounds)
        ]
    except UnavailableError as error:
        return unavailable("start to first acknowledged message", against, None, str(error))
    seconds = [run.seconds for run, _ in runs], [run.seconds for _, run in runs]
    return compared("start to first acknowledged message", against, *seconds, "s", targets.NEAR_FLAT_COST)
