"""Who is who: each registration is a record in a log of one partition, and its id is its offset plus one.

So ids are unique over all topics and gateways without anybody having to agree on the next one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from penstock.gateway.queue.shared_log import SharedLog
from penstock.gateway.queue.strict import MalformedRecordError, decode, require
from penstock.metadata.topic_names import problem_with

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka

TOPIC: Final = "__penstock_ids"


class Kind(StrEnum):
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Registration(NamedTuple):
    kind: str
    topic: str


class Registrations:
    """The state that the log describes. Pure."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, _log_start: int) -> None:
        self._by_id: dict[int, Registration] = {}
        self._same: dict[Registration, Registration] = {}

    def apply(self, offset: int, value: bytes) -> None:
        match decode(value):
            case {"kind": str(kind), "topic": str(topic)}:
                require(kind in set(Kind), "a registration of another kind")
                require(problem_with(topic) is None, "a registration for what is no topic")
                registration = Registration(kind, topic)
                # Thousands register for the same topic, and one object is enough for all.
                self._by_id[offset + 1] = self._same.setdefault(registration, registration)
            case _:
                raise MalformedRecordError("not a registration")

    def get(self, identity: int) -> Registration | None:
        return self._by_id.get(identity)


class Registry:
    def __init__(self, kafka: Kafka) -> None:
        self._registrations = Registrations()
        self._log = SharedLog(kafka, TOPIC, 0, 1, self._registrations)

    async def register(self, kind: Kind, topic: str) -> int:
        offset, _ = await self._log.append(orjson.dumps({"kind": kind, "topic": topic}))
        return offset + 1

    def known(self, identity: int) -> Registration | None:
        """Without asking the cluster: what is found is right, what is not may be new."""
        return self._registrations.get(identity)

    async def find(self, identity: int) -> Registration | None:
        found = self.known(identity)
        if found is None:
            await self._log.catch_up()
            found = self.known(identity)
        return found
