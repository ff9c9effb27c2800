"""Latency of single puts and gets of Publisher and Subscriber, each durable before it returns."""

from __future__ import annotations

import time

from bench.load.arguments import arguments, payload, result
from bench.stats import percentile
from penstock import Publisher, Subscriber


def main() -> None:
    given = arguments()
    count, message = given["count"], payload(given["size"])
    topic, broker = given["topic"], given["bootstrap"]
    puts_ms, gets_ms = list[float](), list[float]()
    with Publisher("bench", broker=broker) as publisher, Subscriber("bench", broker=broker) as subscriber:
        subscriber.subscribe(topic)
        for _ in range(count):
            began = time.perf_counter()
            publisher.put(topic, message)
            put = time.perf_counter()
            if subscriber.get(timeout=30) is None:
                raise SystemExit("a message was put and is not got")
            puts_ms.append((put - began) * 1000)
            gets_ms.append((time.perf_counter() - put) * 1000)
    settled = count // 4  # connections, caches
    result(
        put_p50_ms=percentile(puts_ms[settled:], 0.5),
        put_p99_ms=percentile(puts_ms[settled:], 0.99),
        get_p50_ms=percentile(gets_ms[settled:], 0.5),
        get_p99_ms=percentile(gets_ms[settled:], 0.99),
    )


if __name__ == "__main__":
    main()
