"""`penstock bench`: a quick look at what this machine does. For comparisons with others, see `make bench`."""

import os
import platform
import statistics
import time
from contextlib import nullcontext
from typing import Annotated, Any
from uuid import uuid4

import typer
from confluent_kafka import libversion
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.cli.child import Child, temporary_broker
from penstock.cli.kafka import REQUEST_SECONDS_MAX, answers, cluster_metadata, connect
from penstock.cli.options import Json
from penstock.cli.output import print_json, print_table
from penstock.cli.workload import Writer, read_all, wait_for_topic

SIZES = (100, 1_000)
SINGLE_MESSAGES = 200


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            envvar="PENSTOCK_BOOTSTRAP",
            metavar="HOST:PORT[,…]",
            help="A broker that runs; if not given, one is started for this.",
        ),
    ] = None,
    megabytes: Annotated[int, typer.Option(min=1, help="Data written and read per message size.")] = 50,
    json: Json = False,
) -> None:
    """Measure writing, reading and latency through librdkafka, with acks=all."""
    with nullcontext(Child(bootstrap, "", 0)) if bootstrap else temporary_broker("--no-gateway") as broker:
        admin = connect(broker.bootstrap)
        cluster_metadata(admin, broker.bootstrap)
        rates = [measure(admin, broker.bootstrap, size, megabytes * 1_000_000) for size in SIZES]
        latency = measure_latency(admin, broker.bootstrap)
    machine = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "librdkafka": libversion()[0],
    }
    if json:
        print_json({"machine": machine, "rates": rates, "latency_ms": latency})
        return
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print_table(
        ["MESSAGE", "WRITTEN/S", "MB/S", "READ/S", "MB/S"],
        [
            [
                f"{rate['message_bytes']} B",
                round(rate["produce"]["messages_per_second"]),
                round(rate["produce"]["megabytes_per_second"]),
                round(rate["consume"]["messages_per_second"]),
                round(rate["consume"]["megabytes_per_second"]),
            ]
            for rate in rates
        ],
    )
    print(f"one message at a time, acknowledged: p50 {latency['p50']:.2f} ms, p99 {latency['p99']:.2f} ms")


def measure(admin: AdminClient, bootstrap: str, size: int, total_bytes: int) -> dict[str, Any]:
    number = total_bytes // size
    value = os.urandom(size)
    topic = create_topic(admin)
    try:
        written = Writer(bootstrap).write(topic, ((None, value, []) for _ in range(number)), lambda: None)
        read = read_all(bootstrap, topic, 1, number)
    finally:
        answers(admin.delete_topics([topic], request_timeout=REQUEST_SECONDS_MAX))
    return {
        "message_bytes": size,
        "messages": number,
        "produce": {
            "messages_per_second": written.messages_per_second,
            "megabytes_per_second": written.megabytes_per_second,
        },
        "consume": {
            "messages_per_second": read.messages_per_second,
            "megabytes_per_second": read.megabytes_per_second,
        },
    }


def measure_latency(admin: AdminClient, bootstrap: str) -> dict[str, float]:
    """From sending one message to its acknowledgement, nothing else under way."""
    topic = create_topic(admin)
    try:
        writer = Writer(bootstrap, **{"linger.ms": 0})
        times = []
        for _ in range(SINGLE_MESSAGES):
            start = time.perf_counter()
            writer.write(topic, [(None, b"x" * 100, [])], lambda: None)
            times.append((time.perf_counter() - start) * 1_000)
    finally:
        answers(admin.delete_topics([topic], request_timeout=REQUEST_SECONDS_MAX))
    return {"p50": statistics.median(times), "p99": statistics.quantiles(times, n=100)[98]}


def create_topic(admin: AdminClient) -> str:
    topic = f"penstock-bench-{uuid4().hex[:12]}"
    answers(admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=-1)]))
    wait_for_topic(admin, topic, 1)
    return topic
