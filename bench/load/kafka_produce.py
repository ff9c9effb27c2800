"""librdkafka producer at full speed for a bounded time: prints messages acknowledged and seconds."""

from __future__ import annotations

import time

from bench.load.arguments import arguments, payload, result
from bench.load.librdkafka import BatchProducer

BATCH = 1_000
OUTSTANDING_BYTES_MAX = 64 * 1024 * 1024
CONNECT_MS_MAX = 10_000
FLUSH_MS_MAX = 60_000


def main() -> None:
    given = arguments()
    config = {
        "bootstrap.servers": given["bootstrap"],
        "acks": "all",
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "max.in.flight.requests.per.connection": 5,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": 2_097_151,
    }
    size, partitions = given["size"], given.get("partitions", 1)
    producer = BatchProducer(config, given["topic"], payload(size), BATCH)
    producer.connect(CONNECT_MS_MAX)
    outstanding_max = OUTSTANDING_BYTES_MAX // max(size, 500)
    sent, began = 0, time.perf_counter()
    while sent < given["count"] and time.perf_counter() - began < given["seconds"]:
        sent += producer.produce((sent // BATCH) % partitions)
        while producer.outstanding() > outstanding_max:
            producer.poll(1)
    left = producer.flush(FLUSH_MS_MAX)
    seconds = time.perf_counter() - began
    if left or producer.failed:
        raise SystemExit(f"{left} messages not acknowledged, {producer.failed} failed")
    result(messages=sent, seconds=seconds)


if __name__ == "__main__":
    main()
