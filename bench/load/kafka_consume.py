"""librdkafka consumer from the start of one partition: prints messages and seconds."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.load.arguments import arguments, result

BATCH = 10_000


def main() -> None:
    given = arguments()
    consumer = Consumer(
        {
            "bootstrap.servers": given["bootstrap"],
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 10 * 1024 * 1024,
        }
    )
    consumer.assign([TopicPartition(given["topic"], 0, OFFSET_BEGINNING)])
    wanted, got = given["count"], 0
    first = consumer.poll(30)  # connecting is not part of the rate
    if first is None or first.error():
        raise SystemExit("nothing to consume")
    began = time.perf_counter()
    while got + 1 < wanted:
        messages = consumer.consume(min(BATCH, wanted - 1 - got), 10)
        if not messages:
            raise SystemExit(f"stalled after {got} of {wanted}")
        got += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    result(messages=got, seconds=seconds)


if __name__ == "__main__":
    main()
