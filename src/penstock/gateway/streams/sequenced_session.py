"""Messages of a client that numbers them: stored once each, in order, whichever gateways it connects to.

Each message must have the number after the last one stored. A smaller one is a repetition and is acknowledged
without being stored, a larger one is refused with the number that is expected. The brokers are the judge, see
kafka/sequenced.py: the numbers are those of an idempotent producer that belongs to the client. What this
session knows of the last number only saves questions; when a broker disagrees, it asks.

One batch is on its way at a time, and whatever arrives meanwhile goes into the next.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.gateway.kafka.errors import InvalidRequestError, KafkaUnavailableError, MessageTooLargeError
from penstock.gateway.kafka.sequenced import OutOfOrderError, nearest
from penstock.gateway.streams.frames import Frame, refused, stored
from penstock.wire.records import Record

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader import LogReader
    from penstock.gateway.kafka.sequenced import SequencedWriter
    from penstock.gateway.streams.client_registry import Client

CLIENT_HEADER: Final = "penstock-client"
SEQUENCE_HEADER: Final = "penstock-sequence"
REMEMBERED_MAX: Final = 1_000
"""Offsets of the client's last messages, for the answers to repetitions."""
LOOK_BACK: Final = 1_000
"""Offsets, in the log."""
DISAGREEMENTS_MAX: Final = 10
"""With other connections of the same client that write at the same time."""
BATCH_BYTES_MAX: Final = 512 * 1024


class SequencedSession:
    def __init__(
        self, writer: SequencedWriter, reader: LogReader, topic: str, name: str, client: Client
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._topic = topic
        self._name = name.encode()
        self._client = client
        self._last: int | None = None
        """The last number stored, in 31 bits; None if the cluster remembers none."""
        self._offsets: dict[int, int] = {}

    async def begin(self) -> int | None:
        """The number that is expected next, in 31 bits; None if it may be any."""
        await self._ask_last()
        if self._last is None:
            return None
        await self._remember_log()
        return self._last + 1

    async def store(self, frames: Sequence[Frame]) -> list[bytes]:
        """The answers to these, in their order. Raises KafkaUnavailableError: some may be stored then."""
        answers: list[bytes] = []
        waiting = list(frames)
        disagreements = 0
        is_fresh = False
        while waiting:
            run = self._next_run(waiting)
            if not run:
                if self._is_ahead(waiting[0]) and not is_fresh:
                    # Another connection of the client may have written what seems to be missing.
                    await self._ask_last()
                    is_fresh = True
                    continue
                answers.append(self._answer_unstored(waiting.pop(0)))
                continue
            try:
                offset = await self._write(run)
            except OutOfOrderError as error:
                disagreements += 1
                if disagreements > DISAGREEMENTS_MAX:
                    raise KafkaUnavailableError(f"the last sequence is not clear: {error}") from error
                await self._ask_last()
            except (MessageTooLargeError, InvalidRequestError) as error:
                if len(run) == 1:
                    answers.append(refused(str(error), waiting.pop(0).sequence))
                else:
                    answers += [answer for frame in run for answer in await self.store([frame])]
                    del waiting[: len(run)]
            else:
                answers += self._stored(run, offset)
                del waiting[: len(run)]
        return answers

    def _next_run(self, frames: Sequence[Frame]) -> list[Frame]:
        """The first of them that can be stored as one batch."""
        run: list[Frame] = []
        size = 0
        for frame in frames:
            number = self._expected(frame) if not run else (run[-1].sequence or 0) + 1
            size += frame.size
            if frame.sequence is None or frame.sequence != number or not self._may_go_here(frame):
                break
            if run and size > BATCH_BYTES_MAX:
                break
            run.append(frame)
        return run

    def _expected(self, frame: Frame) -> int | None:
        """The number that this message should have; its own if any may come first."""
        if frame.sequence is None or self._last is None:
            return frame.sequence
        return nearest(frame.sequence, self._last + 1)

    def _is_ahead(self, frame: Frame) -> bool:
        expected = self._expected(frame)
        return frame.sequence is not None and expected is not None and frame.sequence > expected

    def _may_go_here(self, frame: Frame) -> bool:
        return frame.partition in (None, self._client.partition)

    def _answer_unstored(self, frame: Frame) -> bytes:
        """To a message that is not the next one."""
        if frame.sequence is None:
            return refused("sequence is missing: this client numbers its messages", None)
        if not self._may_go_here(frame):
            message = f"this client writes to partition {self._client.partition}"
            return refused(message, frame.sequence)
        expected = self._expected(frame)
        assert expected is not None
        if frame.sequence < expected:
            offset = self._offsets.get(frame.sequence)
            return stored(frame.sequence, self._client.partition, offset, duplicate=True)
        return refused(f"expected {expected}", frame.sequence, expected=expected)

    async def _write(self, run: Sequence[Frame]) -> int:
        now_ms = time.time_ns() // 1_000_000
        first = run[0].sequence
        assert first is not None
        records = [
            Record(place, now_ms, frame.key, frame.value, self._headers(first + place))
            for place, frame in enumerate(run)
        ]
        where = (self._topic, self._client.partition, self._client.producer_id)
        return await self._writer.write(*where, first, records)

    def _headers(self, sequence: int) -> tuple[tuple[str, bytes], ...]:
        return ((CLIENT_HEADER, self._name), (SEQUENCE_HEADER, b"%d" % sequence))

    def _stored(self, run: Sequence[Frame], offset: int) -> list[bytes]:
        answers = []
        for place, frame in enumerate(run):
            assert frame.sequence is not None
            self._last = frame.sequence
            self._remember(frame.sequence, offset + place)
            answers.append(stored(frame.sequence, self._client.partition, offset + place))
        return answers

    def _remember(self, sequence: int, offset: int) -> None:
        self._offsets[sequence] = offset
        if len(self._offsets) > REMEMBERED_MAX:
            del self._offsets[next(iter(self._offsets))]

    async def _ask_last(self) -> None:
        where = (self._topic, self._client.partition, self._client.producer_id)
        self._last = await self._writer.last_sequence(*where)

    async def _remember_log(self) -> None:
        """Where the client's last messages are, as far as they are near the end of the log."""
        topic, partition = self._topic, self._client.partition
        offsets = await self._reader.offsets(topic, partition)
        offset = max(offsets.start, offsets.end - LOOK_BACK)
        while offset < offsets.end:
            fetched = await self._reader.fetch(topic, partition, offset)
            if fetched.next_offset == offset:
                return  # a replica that is behind; it is only a courtesy
            for record in fetched.records:
                headers = dict(record.headers)
                number = headers.get(SEQUENCE_HEADER)
                if number is not None and headers.get(CLIENT_HEADER) == self._name and number.isdigit():
                    self._remember(int(number), record.offset)
            offset = fetched.next_offset
