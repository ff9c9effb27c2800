"""End-to-end latency at a fixed rate: each message carries the time it was due.

Counting from then, and not from when it was sent, keeps a stall visible in every message that it held up.
The first half of a run settles connections and caches and is not counted. How late the generator itself was
is printed too: where that is not small, the figures say nothing about the server.
"""

from __future__ import annotations

import struct
import threading
import time

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from bench.load.arguments import arguments, payload, result
from bench.stats import percentile

TIME = struct.Struct(">q")


def consume(bootstrap: str, topic: str, count: int, ready: threading.Event, latencies: list[float]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    deadline = time.monotonic() + 60
    while len(latencies) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        value = message.value() or b""
        (due,) = TIME.unpack_from(value)
        if due:
            latencies.append((time.monotonic_ns() - due) / 1e6)
        else:
            ready.set()
    consumer.close()


def main() -> None:
    given = arguments()
    rate, count = given["rate"], int(given["rate"] * given["seconds"])
    filler = payload(given["size"] - TIME.size)
    producer = Producer({"bootstrap.servers": given["bootstrap"], "acks": "all", "linger.ms": 0})
    ready, latencies = threading.Event(), list[float]()
    topic = given["topic"]
    reader = threading.Thread(target=consume, args=(given["bootstrap"], topic, count, ready, latencies))
    reader.start()
    probes_until = time.monotonic() + 30
    while not ready.wait(0.05) and time.monotonic() < probes_until:
        producer.produce(topic, TIME.pack(0) + filler)
        producer.poll(0)
    late: list[float] = []
    began = time.monotonic_ns()
    for number in range(count):
        due = began + int(number / rate * 1e9)
        wait = (due - time.monotonic_ns()) / 1e9
        if wait > 0:
            time.sleep(wait)
        late.append((time.monotonic_ns() - due) / 1e6)
        producer.produce(topic, TIME.pack(due) + filler)
        producer.poll(0)
    producer.flush(30)
    reader.join()
    if len(latencies) < count:
        raise SystemExit(f"{len(latencies)} of {count} messages came back")
    settled, settled_late = latencies[count // 2 :], late[count // 2 :]
    result(
        p50_ms=percentile(settled, 0.5),
        p99_ms=percentile(settled, 0.99),
        late_p50_ms=percentile(settled_late, 0.5),
        messages=len(settled),
    )


if __name__ == "__main__":
    main()
