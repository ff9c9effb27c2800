"""Redis Streams by redis-py with hiredis: XADD in pipelines, XREAD in blocks."""

from __future__ import annotations

import time
from typing import Any

import redis

from bench.load.arguments import arguments, payload, result

BATCH = 1_000


def publish(client: redis.Redis, stream: str, size: int, count: int, seconds: float) -> tuple[int, float]:
    fields: Any = {b"v": payload(size)}
    sent, began = 0, time.perf_counter()
    while sent < count and time.perf_counter() - began < seconds:
        pipeline = client.pipeline(transaction=False)
        for _ in range(BATCH):
            pipeline.xadd(stream, fields)
        sent += len(pipeline.execute())
    return sent, time.perf_counter() - began


def consume(client: redis.Redis, stream: str, count: int) -> tuple[int, float]:
    position, got, began = b"0-0", 0, time.perf_counter()
    while got < count:
        answer: Any = client.xread({stream: position}, count=BATCH)
        ((_, entries),) = answer
        got += len(entries)
        position = entries[-1][0]
    return got, time.perf_counter() - began


def main() -> None:
    given = arguments()
    client = redis.Redis(port=given["port"], protocol=2)
    sent, publish_seconds = publish(client, given["topic"], given["size"], given["count"], given["seconds"])
    got, consume_seconds = consume(client, given["topic"], sent)
    client.delete(given["topic"])
    result(published=sent, publish_seconds=publish_seconds, consumed=got, consume_seconds=consume_seconds)


if __name__ == "__main__":
    main()
