"""The live map under load: cars, three brokers, Spark, gateway and a browser on one machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import targets
from bench.process import UnavailableError, free_port, require_module, run_load, spawn, stop, wait_until
from bench.table import Row, compared, reported, unavailable

if TYPE_CHECKING:
    from bench.session import Session

CARS: Final = 20_000
RATE: Final = 1.0
LIMIT_S: Final = 2.0
WARM_UP_S: Final = 30
READY_S_MAX: Final = 120
COUNT_S_MAX: Final = 60
PENSTOCK: Final = (sys.executable, "-m", "penstock")


@dataclass(frozen=True, slots=True)
class Stack:
    directory: Path
    bootstrap: str
    http: str
    simulator: subprocess.Popen[bytes]
    processes: tuple[subprocess.Popen[bytes], ...]
    first_heat_s: float
    """From the start of everything to the first counted cell."""

    @property
    def truth(self) -> Path:
        return self.directory / "truth.json"


def start(directory: Path) -> Stack:
    began = time.monotonic()
    port, http_port = free_port(), free_port()
    bootstrap, http = f"127.0.0.1:{port}", f"http://127.0.0.1:{http_port}"
    log = directory / "up.log"
    up = spawn(
        [*PENSTOCK, "up", "--brokers", 3, "--port", port, "--http-port", http_port,
         "--data", directory / "data", "--flush", "os"],
        log,
    )  # fmt: skip
    processes = [up]
    try:
        wait_until(lambda: b"ready kafka=" in log.read_bytes(), "penstock up", up, READY_S_MAX)
        simulator = spawn(
            [*PENSTOCK, "traffic", "simulate", "--bootstrap", bootstrap, "--cars", CARS, "--rate", RATE,
             "--truth", directory / "truth.json"],
            directory / "simulate.log",
        )  # fmt: skip
        processes.append(simulator)
        heatmap = spawn(
            [*PENSTOCK, "traffic", "heatmap", "--bootstrap", bootstrap,
             "--checkpoint", directory / "checkpoint"],
            directory / "heatmap.log",
        )  # fmt: skip
        processes.append(heatmap)
        wait_until(lambda: counted(bootstrap) > 0, "the heat map", heatmap, READY_S_MAX)
    except BaseException:
        for process in reversed(processes):
            stop(process)
        raise
    return Stack(directory, bootstrap, http, simulator, tuple(processes), time.monotonic() - began)


def counted(bootstrap: str) -> int:
    return int((maybe_totals(bootstrap) or {}).get("counted", 0))


def maybe_totals(bootstrap: str) -> dict[str, Any] | None:
    """The last totals that the job published."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": 0})
    try:
        partition = TopicPartition("traffic.heatmap", 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=2)
        if end < 1:
            return None
        consumer.assign([TopicPartition("traffic.heatmap", 0, end - 1)])
        message = consumer.poll(2)
        if message is None or message.error() or message.key() != b"totals":
            return None
        totals: dict[str, Any] = json.loads(message.value() or b"{}")
    except KafkaException:
        return None
    else:
        return totals
    finally:
        consumer.close()


def finish(stack: Stack) -> tuple[int, int]:
    """Stop the cars; how many positions they sent, and how many the job accounted for."""
    stop(stack.simulator)
    sent = int(json.loads(stack.truth.read_bytes())["sent"])
    deadline = time.monotonic() + COUNT_S_MAX
    told = 0
    while told < sent and time.monotonic() < deadline:
        told = int((maybe_totals(stack.bootstrap) or {}).get("sent", 0))
        time.sleep(0.2)
    return sent, told


def measure(session: Session) -> list[Row]:
    what = f"map behind the newest position, {CARS * RATE:,.0f} positions/s, 3 brokers, in a browser"
    try:
        require_module("playwright")
        require_module("pyspark")
        stack = start(session.directory("traffic"))
    except UnavailableError as error:
        return [unavailable(f"{what}: p95", "2 s", targets.MAP_VS_LIMIT, str(error))]
    try:
        time.sleep(WARM_UP_S)
        rounds = [
            run_load(
                "traffic_map", http=stack.http, chromium=shutil.which("chromium"), seconds=session.seconds * 5
            )
            for _ in range(session.rounds)
        ]
        sent, told = finish(stack)
    finally:
        for process in reversed(stack.processes):
            stop(process)
    rows = [
        compared(
            f"{what}: p95", "2 s", [each["page_p95_s"] for each in rounds], [LIMIT_S] * len(rounds), "s",
            targets.MAP_VS_LIMIT,
        )
    ]  # fmt: skip
    for key, name in (
        ("page_p50_s", "p50"),
        ("stream_p50_s", "stream of events, p50"),
        ("stream_p95_s", "stream of events, p95"),
    ):
        figures = sorted(each[key] for each in rounds)
        rows.append(reported(f"the same: {name}", f"{figures[len(figures) // 2]:.2f} s"))
    rows.append(reported("start of cluster, cars and Spark to the first heat", f"{stack.first_heat_s:.1f} s"))
    rows.append(reported("positions sent, and accounted for by the job", f"{sent:,} and {told:,}"))
    return rows
