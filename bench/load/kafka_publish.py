"""confluent-kafka's Python interface at full speed: what a Python program gets, beside other Python clients.

`kafka_produce` drives the same library from C to compare servers; beside clients that spend interpreter time
on each message that would be no fair match.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Producer

from bench.load.arguments import arguments, payload, result

BATCH = 1_000
OUTSTANDING_MAX = 100_000


def main() -> None:
    given = arguments()
    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": given["bootstrap"],
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "max.in.flight.requests.per.connection": 5,
            "queue.buffering.max.messages": 10_000_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(str(error)),
        }
    )
    producer.list_topics(given["topic"], 10)
    body = payload(given["size"])
    sent, began = 0, time.perf_counter()
    while sent < given["count"] and time.perf_counter() - began < given["seconds"]:
        messages: list[dict[str, Any]] = [{"value": body} for _ in range(BATCH)]
        sent += producer.produce_batch(given["topic"], messages, partition=0)
        producer.poll(0)
        while len(producer) > OUTSTANDING_MAX:
            producer.poll(0.001)
    left = producer.flush(60)
    seconds = time.perf_counter() - began
    if left or failures:
        raise SystemExit(f"{left} messages not acknowledged, {len(failures)} failed: {failures[:1]}")
    result(messages=sent, seconds=seconds)


if __name__ == "__main__":
    main()
