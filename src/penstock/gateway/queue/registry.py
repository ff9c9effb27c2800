"""Who is who: each registration is a record in a log of one partition, with an id drawn by chance.

Whoever knows an id may use it, so ids cannot be guessed. They are unique over all topics and gateways: of two
records with one id the first counts, and who wrote the second draws again. Records without an id are of older
gateways: it is the record's offset plus one.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from penstock.gateway.queue.shared_log import SharedLog
from penstock.gateway.queue.strict import MalformedRecordError, decode, is_number, require
from penstock.metadata.topic_names import problem_with

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka

TOPIC: Final = "__penstock_ids"
DRAWN_ID_MAX: Final = 2**53 - 1
"""Numbers in JSON are exact up to here, also for JavaScript."""


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

    def apply(self, offset: int, value: bytes) -> bool:
        """Whether the record registers somebody; if not, somebody else has the id."""
        match decode(value):
            case {"kind": str(kind), "topic": str(topic), **others}:
                identity = others.get("id", offset + 1)
                if not is_number(identity, 1):
                    raise MalformedRecordError("a registration with a wrong id")
                require(kind in set(Kind), "a registration of another kind")
                require(problem_with(topic) is None, "a registration for what is no topic")
                registration = Registration(kind, topic)
                # Thousands register for the same topic, and one object is enough for all.
                registration = self._same.setdefault(registration, registration)
                is_new = identity not in self._by_id
                if is_new:
                    self._by_id[identity] = registration
                return is_new
            case _:
                raise MalformedRecordError("not a registration")

    def get(self, identity: int) -> Registration | None:
        return self._by_id.get(identity)


class Registry:
    def __init__(self, kafka: Kafka) -> None:
        self._registrations = Registrations()
        self._log = SharedLog(kafka, TOPIC, 0, 1, self._registrations)

    async def register(self, kind: Kind, topic: str) -> int:
        while True:
            identity = 1 + secrets.randbelow(DRAWN_ID_MAX)
            record = {"id": identity, "kind": kind, "topic": topic}
            _, is_registered = await self._log.append(orjson.dumps(record))
            if is_registered:
                return identity

    def known(self, identity: int) -> Registration | None:
        """Without asking the cluster: what is found is right, what is not may be new."""
        return self._registrations.get(identity)

    async def find(self, identity: int) -> Registration | None:
        found = self.known(identity)
        if found is None:
            await self._log.catch_up()
            found = self.known(identity)
        return found
