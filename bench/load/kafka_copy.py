"""Consume, transform, produce: records of one topic to another, with and without transactions.

Either way what was consumed is recorded after what was produced from it is acknowledged, once per chunk. The
transaction does both at once; without it, a crash between them doubles the chunk.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from bench.load.arguments import arguments, result

WAIT_S = 30.0


def main() -> None:
    given = arguments()
    copy = Copy(given)
    copy.chunk()  # connecting is not part of the rate
    began = time.perf_counter()
    messages = 0
    while messages < given["count"]:
        messages += copy.chunk()
    seconds = time.perf_counter() - began
    copy.close()
    result(messages=messages, seconds=seconds)


class Copy:
    def __init__(self, given: dict[str, Any]) -> None:
        self._source, self._sink, self._size = given["source"], given["sink"], given["chunk"]
        self._is_transactional = given["transactional"]
        bootstrap = given["bootstrap"]
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": given["group"],
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "queued.min.messages": 100_000,
            }
        )
        self._consumer.assign([TopicPartition(self._source, 0, OFFSET_BEGINNING)])
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        if self._is_transactional:
            settings["transactional.id"] = given["group"]
        self._producer = Producer(settings)
        if self._is_transactional:
            self._producer.init_transactions(WAIT_S)

    def chunk(self) -> int:
        messages = self._consumer.consume(self._size, WAIT_S)
        if not messages:
            raise SystemExit("nothing to consume")
        position = TopicPartition(self._source, 0, (messages[-1].offset() or 0) + 1)
        if self._is_transactional:
            self._producer.begin_transaction()
            self._produce(messages)
            group = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([position], group, WAIT_S)
            self._producer.commit_transaction(WAIT_S)
        else:
            self._produce(messages)
            if self._producer.flush(WAIT_S):
                raise SystemExit("not everything was acknowledged")
            self._consumer.commit(offsets=[position], asynchronous=False)
        return len(messages)

    def _produce(self, messages: list[Message]) -> None:
        for message in messages:
            value = message.value() or b""
            self._producer.produce(self._sink, value[::-1])

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    main()
