"""How long after its acknowledgement a WebSocket follower sees a message, at a fixed rate.

Both times are taken in this process: when librdkafka reports the delivery, and when the follower has the
frame. A follower may see a message before its writer learns that it is stored; then the time is negative, and
counted as it is. The first half of a run settles connections and caches and is not counted.
"""

from __future__ import annotations

import json
import threading
import time

from confluent_kafka import KafkaError, Message, Producer
from websockets.sync.client import connect

from bench.load.arguments import arguments, payload, result
from bench.stats import percentile

SECONDS_MAX = 60.0


def follow(url: str, count: int, ready: threading.Event, seen: dict[int, int]) -> None:
    with connect(url, proxy=None) as socket:
        ready.set()
        while len(seen) < count:
            frame = socket.recv(SECONDS_MAX)
            now = time.monotonic_ns()
            seen[json.loads(frame)["offset"]] = now


def main() -> None:
    given = arguments()
    rate, count = given["rate"], int(given["rate"] * given["seconds"])
    url = f"ws://127.0.0.1:{given['http_port']}/v1/topics/{given['topic']}/stream?offset=beginning"
    ready, seen, acknowledged = threading.Event(), dict[int, int](), dict[int, int]()
    followers = [threading.Thread(target=follow, args=(url, count, ready, seen))]
    followers += [
        threading.Thread(target=follow, args=(url, count, ready, {})) for _ in range(given["others"])
    ]
    for follower in followers:
        follower.start()
        ready.wait(SECONDS_MAX)
        ready.clear()

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            acknowledged[offset] = time.monotonic_ns()

    producer = Producer({"bootstrap.servers": given["bootstrap"], "acks": "all", "linger.ms": 0})
    value = payload(given["size"])
    began = time.monotonic_ns()
    for number in range(count):
        due = began + int(number / rate * 1e9)
        while (wait := (due - time.monotonic_ns()) / 1e9) > 0:
            producer.poll(wait)
        producer.produce(given["topic"], value, on_delivery=delivered)
    producer.flush(SECONDS_MAX)
    for follower in followers:
        follower.join(SECONDS_MAX)
    if len(seen) < count or len(acknowledged) < count:
        raise SystemExit(f"{len(acknowledged)} of {count} messages acknowledged, {len(seen)} seen")
    settled = [(seen[offset] - acknowledged[offset]) / 1e6 for offset in range(count // 2, count)]
    result(p50_ms=percentile(settled, 0.5), p99_ms=percentile(settled, 0.99), messages=len(settled))


if __name__ == "__main__":
    main()
