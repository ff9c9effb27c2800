"""Who is who: each registration is a record in a log of one partition, with an id drawn by chance.

Whoever knows an id may use it, so ids cannot be guessed. They are unique over all topics and gateways: of two
records with one id the first counts, and who wrote the second draws again. Records without an id are of older
gateways: it is the record's offset plus one. What is not used for long is forgotten (last_used).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from penstock.gateway.queue.last_used import FOREVER, LastUsed, Life
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
    """The state that the log describes."""

    def __init__(self, life: Life = FOREVER) -> None:
        self._by_id: LastUsed[int, Registration] = LastUsed(life)
        self.begin(0)

    def begin(self, _log_start: int) -> None:
        self._by_id.clear()
        self._same: dict[Registration, Registration] = {}

    def apply(self, offset: int, value: bytes) -> bool:
        """Whether the record registers somebody; if not, the id was registered before."""
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
                found = self._by_id.get(identity)
                if found in (None, registration):
                    self._by_id.put(identity, registration, others.get("at"))
                return found is None
            case _:
                raise MalformedRecordError("not a registration")

    def get(self, identity: int) -> Registration | None:
        return self._by_id.get(identity)

    def is_to_be_renewed(self, identity: int) -> bool:
        return self._by_id.is_to_be_renewed(identity)

    def __len__(self) -> int:
        return len(self._by_id)


class Registry:
    def __init__(self, kafka: Kafka, life: Life = FOREVER) -> None:
        self._life = life
        self._registrations = Registrations(life)
        self._log = SharedLog(kafka, TOPIC, 0, 1, self._registrations, life.topic_config())
        self._renewing: set[int] = set()

    async def register(self, kind: Kind, topic: str) -> int:
        while True:
            identity = 1 + secrets.randbelow(DRAWN_ID_MAX)
            if await self._write(identity, Registration(kind, topic)):
                return identity

    async def _write(self, identity: int, registration: Registration) -> bool:
        record = {"id": identity, **registration._asdict(), "at": self._life.now_ms()}
        _, is_registered = await self._log.append(orjson.dumps(record))
        return bool(is_registered)

    async def use(self, identity: int) -> Registration | None:
        """Who has the id; it is not forgotten for a while."""
        found = self.known(identity) or await self.find(identity)
        if (
            found is not None
            and self._registrations.is_to_be_renewed(identity)
            and identity not in self._renewing
        ):
            self._renewing.add(identity)
            try:
                await self._write(identity, found)
            finally:
                self._renewing.discard(identity)
        return found

    async def all_known(self) -> Callable[[int], bool]:
        """Whether an id is somebody's, as of now."""
        await self._log.catch_up()
        return lambda identity: self.known(identity) is not None

    def known(self, identity: int) -> Registration | None:
        """Without asking the cluster: what is found is right, what is not may be new."""
        return self._registrations.get(identity)

    async def find(self, identity: int) -> Registration | None:
        found = self.known(identity)
        if found is None:
            await self._log.catch_up()
            found = self.known(identity)
        return found
