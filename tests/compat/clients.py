"""The same few verbs for every client, so that what one wrote another can read.

Each client is used as its users use it; only what differs in spelling is evened out here.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import aiokafka
import confluent_kafka
import kafka

if TYPE_CHECKING:
    from collections.abc import Sequence

DEADLINE_SECONDS = 20.0

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Message:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    """Milliseconds; None leaves it to the client."""


@dataclass(frozen=True)
class Received(Message):
    partition: int = 0
    offset: int = -1
    is_log_append_time: bool = field(default=False)

    @property
    def sent(self) -> Message:
        return Message(self.value, self.key, self.headers, self.timestamp)


class Client(Protocol):
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, codec: str = "none"
    ) -> None:
        """All messages to partition 0, acknowledged by the time it returns."""

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        """The first `count` messages of partition 0."""


class ConfluentKafka:
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, codec: str = "none"
    ) -> None:
        failures: list[confluent_kafka.KafkaError] = []
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 100}
        )
        for message in messages:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition=0,
                timestamp=message.timestamp or 0,
                headers=list(message.headers),
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(DEADLINE_SECONDS) == 0
        assert not failures

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
        )
        # Not OFFSET_BEGINNING: librdkafka asks for it before it has connected, and half a second later again.
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + DEADLINE_SECONDS
        received: list[Received] = []
        while len(received) < count:
            assert time.monotonic() < deadline, f"{len(received)} of {count}"
            message = consumer.poll(0.5)
            if message is not None:
                assert message.error() is None, message.error()
                received.append(self._received(message))
        consumer.close()
        return received

    @staticmethod
    def _received(message: confluent_kafka.Message) -> Received:
        kind, timestamp = message.timestamp()
        return Received(
            message.value(),
            message.key(),
            tuple(message.headers() or ()),
            timestamp,
            message.partition(),
            message.offset(),
            kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
        )


class KafkaPython:
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, codec: str = "none"
    ) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=100
        )
        sent = [
            producer.send(
                topic,
                message.value,
                message.key,
                partition=0,
                headers=list(message.headers),
                timestamp_ms=message.timestamp,
            )
            for message in messages
        ]
        for future in sent:
            future.get(DEADLINE_SECONDS)
        producer.close()

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, consumer_timeout_ms=int(DEADLINE_SECONDS * 1_000)
        )
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        received = []
        for message in consumer:
            received.append(
                Received(
                    message.value,
                    message.key,
                    tuple(message.headers),
                    message.timestamp,
                    message.partition,
                    message.offset,
                    message.timestamp_type == 1,
                )
            )
            if len(received) == count:
                break
        consumer.close()
        return received


class AioKafka:
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, codec: str = "none"
    ) -> None:
        asyncio.run(self._produce(bootstrap, topic, messages, codec))

    async def _produce(self, bootstrap: str, topic: str, messages: Sequence[Message], codec: str) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=100,
            enable_idempotence=True,
        )
        async with producer, asyncio.timeout(DEADLINE_SECONDS):
            sent = [
                await producer.send(
                    topic,
                    message.value,
                    message.key,
                    partition=0,
                    headers=list(message.headers),
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            await asyncio.gather(*sent)

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        return asyncio.run(self._consume(bootstrap, topic, count))

    async def _consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap)
        async with consumer, asyncio.timeout(DEADLINE_SECONDS):
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            received = []
            while len(received) < count:
                message = await consumer.getone()
                received.append(
                    Received(
                        message.value,
                        message.key,
                        tuple(message.headers),
                        message.timestamp,
                        message.partition,
                        message.offset,
                        message.timestamp_type == 1,
                    )
                )
        return received


class Kcat:
    """Takes keys and values as lines, sets no timestamps, and gives all messages the same headers."""

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, codec: str = "none"
    ) -> None:
        options = [f"{name}={(value or b'').decode()}" for name, value in messages[0].headers]
        headers = [part for option in options for part in ("-H", option)]
        lines = b"".join(
            (message.key or b"") + b"\t" + (message.value or b"") + b"\n" for message in messages
        )
        run_kcat(
            *("-b", bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, "-K", "\t", "-Z", *headers),
            *("-X", "linger.ms=100"),
            stdin=lines,
        )

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Received]:
        output = run_kcat(
            *("-b", bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count), "-J", "-u")
        )
        return [self._received(json.loads(line)) for line in output.splitlines()]

    @staticmethod
    def _received(message: dict[str, object]) -> Received:
        flat = message.get("headers", [])
        assert isinstance(flat, list)
        headers = tuple(
            (str(name), None if value is None else str(value).encode())
            for name, value in zip(flat[::2], flat[1::2], strict=True)
        )
        value, key = message["payload"], message["key"]
        return Received(
            None if value is None else str(value).encode(),
            None if key is None else str(key).encode(),
            headers,
            int(str(message["ts"])),
            int(str(message["partition"])),
            int(str(message["offset"])),
            message["tstype"] == "logappend",
        )


def run_kcat(*arguments: str, stdin: bytes = b"", timeout_s: float = DEADLINE_SECONDS) -> str:
    done = subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, timeout=timeout_s)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


CLIENTS: dict[str, Client] = {
    "confluent-kafka": ConfluentKafka(),
    "kafka-python": KafkaPython(),
    "aiokafka": AioKafka(),
    "kcat": Kcat(),
}
