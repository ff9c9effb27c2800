"""One partition of a log that several gateways write, and a state that all of them derive from it.

A gateway reads the log when it needs to know more, and not all the time: to its end as of now before it says
that something is not there, and up to a record of its own to learn what became of it. A record of its own
that follows directly on what it has read need not be read: the acknowledgement says where it is, and so that
nothing lies between. While one gateway serves alone it reads its logs once, when it starts.

A log that was deleted, or lost with the memory of a broker, is noticed by its offsets, and read from its
beginning. Requests on their way at that moment fail and can be repeated.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.gateway.kafka.errors import (
    KafkaUnavailableError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownTopicError,
)
from penstock.gateway.queue.fresh import Fresh
from penstock.gateway.queue.last_used import KEPT_FOREVER
from penstock.gateway.queue.strict import MalformedRecordError

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.kafka.producer import Delivered
    from penstock.kafka.records import ReadRecord

log = logging.getLogger(__name__)

WRITER_HEADER: Final = "penstock-by"
FETCH_BYTES: Final = 1024 * 1024
BEHIND_WAIT_MS: Final = 100
"""For a record that is known to be there, at a replica that does not have it yet."""
BEHIND_WAITS_MAX: Final = 50
BEGINNINGS_MAX: Final = 5
CREATION_S_MAX: Final = 10.0


class Machine(Protocol):
    """A state that is made of the records of a log, in their order."""

    def begin(self, log_start: int) -> None: ...

    def apply(self, offset: int, value: bytes) -> Any:
        """MalformedRecordError leaves the state as it was."""
        ...


class LogReplacedError(KafkaUnavailableError):
    """The log is another one than a moment ago."""


class SharedLog:
    def __init__(
        self,
        kafka: Kafka,
        topic: str,
        partition: int,
        partitions: int,
        machine: Machine,
        config: Mapping[str, str] = KEPT_FOREVER,
    ) -> None:
        """`config` is what the topic is created with."""
        self._kafka = kafka
        self._topic = topic
        self._partition = partition
        self._partitions = partitions
        self._machine = machine
        self._config = config
        self._applied = -1
        """The next offset; -1 before anything was read."""
        self._reading = asyncio.Lock()
        self._end = Fresh(self._ask_end)
        self._tokens = itertools.count()
        self._prefix = uuid.uuid4().hex[:12]
        self._outcomes: dict[bytes, Any] = {}
        """Of records of our own that are on their way: what became of them, once they are applied."""
        self._named_before = 0
        """Malformed records before this offset were named in the log of this process."""

    async def load(self) -> None:
        """Read the log, unless that was done before."""
        if self._applied < 0:
            await self.catch_up()

    async def catch_up(self) -> None:
        """Apply all that is in the log at this moment."""
        for _ in range(BEGINNINGS_MAX):
            try:
                known, end = self._applied, await self._end.get()
                if known > end:  # not the log that we have read
                    self._forget()
                await self._read_to(end)
            except LogReplacedError:
                continue
            except UnknownTopicError:
                self._forget()
                await self._create()
                continue
            return
        raise KafkaUnavailableError(f"the log {self._topic} changes all the time")

    async def append(self, value: bytes) -> tuple[int, Any]:
        """The offset of a new record and what its application gave; all before it is applied, too."""
        await self.load()
        token = f"{self._prefix}-{next(self._tokens)}".encode()
        self._outcomes[token] = None
        try:
            delivered = await self._write(value, token)
            if delivered.offset == self._applied:
                return delivered.offset, self._apply(delivered.offset, value)
            try:
                await self._read_to(delivered.offset + 1)
            except LogReplacedError:
                # Trimmed since we last looked. From its new beginning on, it says what became of the record.
                await self._read_to(delivered.offset + 1)
            if self._outcomes[token] is None:  # what we have read before was another log
                self._forget()
                raise LogReplacedError(f"the log {self._topic} was replaced")
            return delivered.offset, self._outcomes[token][0]
        finally:
            del self._outcomes[token]

    async def _write(self, value: bytes, token: bytes) -> Delivered:
        for _ in range(BEGINNINGS_MAX):
            try:
                return await self._kafka.producer.send(
                    self._topic, value, partition=self._partition, headers=[(WRITER_HEADER, token)]
                )
            except UnknownTopicError:  # deleted, or lost with a broker's memory
                self._forget()
                await self.load()
        raise KafkaUnavailableError(f"the topic {self._topic} is deleted again and again")

    async def trim(self, before: int) -> None:
        await self._kafka.admin.delete_records(self._topic, self._partition, before)

    async def _read_to(self, end: int) -> None:
        if 0 <= end <= self._applied:
            return
        async with self._reading:
            if self._applied < 0:
                await self._begin()
            waits = 0
            while self._applied < end:
                waits = waits + 1 if await self._read(BEHIND_WAIT_MS if waits else 0) == 0 else 0
                if waits > BEHIND_WAITS_MAX:
                    raise KafkaUnavailableError(f"the log {self._topic} does not have what was written to it")

    def _forget(self) -> None:
        """What we know is of a log that is gone."""
        self._applied = -1
        self._machine.begin(0)

    async def _begin(self) -> None:
        offsets = await self._kafka.reader.offsets(self._topic, self._partition)
        self._machine.begin(offsets.start)
        self._applied = offsets.start

    async def _read(self, wait_ms: int) -> int:
        """How many offsets further it came."""
        asked = self._applied
        try:
            fetched = await self._kafka.reader.fetch(
                self._topic, self._partition, asked, max_bytes=FETCH_BYTES, wait_ms=wait_ms
            )
        except OffsetOutOfRangeError as error:
            self._forget()
            raise LogReplacedError(f"the log {self._topic} was trimmed or replaced") from error
        if self._applied < asked:  # given up meanwhile, to be read from its beginning
            raise LogReplacedError(f"the log {self._topic} was replaced")
        for record in fetched.records:
            if record.offset >= self._applied:  # our own may have been applied meanwhile
                self._apply_read(record)
        self._applied = max(self._applied, fetched.next_offset)
        return self._applied - asked

    def _apply_read(self, record: ReadRecord) -> None:
        outcome = self._apply(record.offset, record.value or b"null")
        token = next((value for name, value in record.headers if name == WRITER_HEADER), None)
        if token in self._outcomes:
            self._outcomes[token] = (outcome,)

    def _apply(self, offset: int, value: bytes) -> Any:
        self._applied = offset + 1
        try:
            return self._machine.apply(offset, value)
        except MalformedRecordError as error:
            if offset >= self._named_before:  # a log may be read several times
                self._named_before = offset + 1
                log.warning(
                    "passed over the record at offset %d of %s-%d: %s",
                    offset, self._topic, self._partition, error,
                )  # fmt: skip
            return None

    async def _ask_end(self) -> int:
        return (await self._kafka.reader.offsets(self._topic, self._partition)).end

    async def _create(self) -> None:
        try:
            await self._kafka.admin.create_topic(
                self._topic, partitions=self._partitions, config=self._config
            )
            log.info("created the topic %s", self._topic)
        except TopicExistsError:
            pass  # another gateway was faster
        self._kafka.reader.forget(self._topic)
        await self._kafka.reader.partitions(self._topic, wait_s=CREATION_S_MAX)
