"""Which producer id a client writes with, and to which partition.

A client that numbers its messages has a name. The first time that a gateway sees the name on a topic, it gets
a producer id from the cluster and writes both down in a log that all gateways share; if several do so at the
same moment, the first record counts for all. A topic that was created again is another topic.
A client that does not come for long is forgotten (queue/last_used).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from penstock.gateway.queue.last_used import FOREVER, LastUsed, Life
from penstock.gateway.queue.shared_log import SharedLog
from penstock.gateway.queue.strict import MalformedRecordError, decode, is_number, require

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.kafka.sequenced import SequencedWriter

TOPIC: Final = "__penstock_clients"


class Client(NamedTuple):
    producer_id: int
    partition: int


Key = tuple[str, str, str, int]
"""Topic, its id, the client's name, and the partition that it asks for (-1 for any)."""


class Clients:
    """The state that the log describes."""

    def __init__(self, life: Life = FOREVER) -> None:
        self._clients: LastUsed[Key, Client] = LastUsed(life)
        self.begin(0)

    def begin(self, _log_start: int) -> None:
        self._clients.clear()

    def apply(self, _offset: int, value: bytes) -> None:
        match decode(value):
            case {
                "topic": str(topic),
                "topic_id": str(topic_id),
                "client": str(name),
                "asked": asked,
                "producer_id": producer_id,
                "partition": partition,
                **others,
            }:
                require(is_number(asked, -1) and is_number(partition), "a client with a wrong partition")
                require(is_number(producer_id), "a client with a wrong producer id")
                key, client = (topic, topic_id, name, asked), Client(producer_id, partition)
                if self._clients.get(key) in (None, client):
                    self._clients.put(key, client, others.get("at"))
            case _:
                raise MalformedRecordError("not a client")

    def get(self, key: Key) -> Client | None:
        return self._clients.get(key)

    def is_to_be_renewed(self, key: Key) -> bool:
        return self._clients.is_to_be_renewed(key)


class ClientRegistry:
    def __init__(self, kafka: Kafka, writer: SequencedWriter, life: Life = FOREVER) -> None:
        self._reader = kafka.reader
        self._writer = writer
        self._life = life
        self._clients = Clients(life)
        self._log = SharedLog(kafka, TOPIC, 0, 1, self._clients, life.topic_config())

    async def find(self, topic: str, name: str, partition: int | None) -> Client:
        """The one that has been writing under that name, or a new one."""
        topic_id = await self._reader.topic_id(topic)
        asked = -1 if partition is None else partition
        key = (topic, str(topic_id or ""), name, asked)
        found = self._clients.get(key)
        if found is None:
            await self._log.catch_up()
            found = self._clients.get(key)
        if found is None:
            if partition is None:
                partitions = await self._reader.partitions(topic)
                partition = partitions[zlib.crc32(name.encode()) % len(partitions)]
            await self._write(key, Client(await self._writer.new_producer_id(), partition))
            found = self._clients.get(key)
            assert found is not None, "it is our own record, or an earlier one"
        elif self._clients.is_to_be_renewed(key):
            await self._write(key, found)
        return found

    async def _write(self, key: Key, client: Client) -> None:
        topic, topic_id, name, asked = key
        record = {
            "topic": topic, "topic_id": topic_id, "client": name, "asked": asked,
            **client._asdict(), "at": self._life.now_ms(),
        }  # fmt: skip
        await self._log.append(orjson.dumps(record))
