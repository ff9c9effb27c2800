"""Messages that a client numbers, against a broker that is as strict as a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.kafka.errors import MessageTooLargeError
from penstock.gateway.kafka.sequenced import SEQUENCE_MASK, OutOfOrderError, SequencedWriter, nearest
from penstock.gateway.queue.strict import MalformedRecordError
from penstock.gateway.streams.client_registry import Client, Clients
from penstock.gateway.streams.frames import Frame
from penstock.gateway.streams.sequenced_session import SequencedSession
from penstock.kafka.records import Fetched, Offsets, ReadRecord

if TYPE_CHECKING:
    from penstock.gateway.kafka.reader import LogReader
    from penstock.wire.records import Record

CLIENT = Client(producer_id=9, partition=2)


class StrictBroker:
    """Writer and reader in one: stores a batch only if it is the next one."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.records: list[ReadRecord] = []
        self.last: int | None = None
        self.batches = 0
        self.bytes_max = 10**9

    async def last_sequence(self, topic: str, partition: int, producer_id: int) -> int | None:
        assert (topic, partition, producer_id) == ("t", 2, 9)
        return self.last

    async def write(
        self, topic: str, partition: int, producer_id: int, first: int, records: Sequence[Record]
    ) -> int:
        first &= SEQUENCE_MASK
        if self.last is not None and first != (self.last + 1) & SEQUENCE_MASK:
            raise OutOfOrderError(f"{first} after {self.last}")
        if sum(len(record.value or b"") for record in records) > self.bytes_max:
            raise MessageTooLargeError("too large")
        offset = len(self.values)
        for place, record in enumerate(records):
            self.values.append(record.value)
            self.records.append(ReadRecord(2, offset + place, 0, record.key, record.value, record.headers))
        self.last = (first + len(records) - 1) & SEQUENCE_MASK
        self.batches += 1
        return offset

    async def offsets(self, topic: str, partition: int) -> Offsets:
        return Offsets(0, len(self.records))

    async def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        found = self.records[offset : offset + 100]
        return Fetched(found, offset + len(found), len(self.records), 0)

    def session(self) -> SequencedSession:
        return SequencedSession(cast("SequencedWriter", self), cast("LogReader", self), "t", "me", CLIENT)


def frames(*numbers: int) -> list[Frame]:
    return [Frame(b"%d" % number, sequence=number) for number in numbers]


async def answers(session: SequencedSession, wanted: Sequence[Frame]) -> list[dict[str, Any]]:
    return [json.loads(answer) for answer in await session.store(wanted)]


def test_what_comes_together_is_stored_together() -> None:
    async def run() -> None:
        broker = StrictBroker()
        session = broker.session()
        assert await session.begin() is None
        found = await answers(session, frames(*range(20)))
        assert [answer["offset"] for answer in found] == list(range(20))
        assert broker.batches == 1
        assert dict(broker.records[3].headers) == {"penstock-client": b"me", "penstock-sequence": b"3"}

    asyncio.run(run())


def test_repetitions_and_gaps() -> None:
    async def run() -> None:
        broker = StrictBroker()
        session = broker.session()
        await session.begin()
        found = await answers(session, frames(0, 1, 1, 0, 5, 2, 3))
        assert [answer.get("offset") for answer in found] == [0, 1, 1, 0, None, 2, 3]
        assert [answer.get("duplicate", False) for answer in found] == [
            False,
            False,
            True,
            True,
            False,
            False,
            False,
        ]
        assert found[4] == {"status": "failure", "message": "expected 2", "expected": 2, "sequence": 5}
        assert broker.values == [b"0", b"1", b"2", b"3"]
        again = broker.session()
        assert await again.begin() == 4
        assert (await answers(again, frames(1)))[0] == {
            "sequence": 1, "partition": 2, "offset": 1, "duplicate": True,
        }  # fmt: skip

    asyncio.run(run())


def test_another_connection_of_the_same_client() -> None:
    async def run() -> None:
        broker = StrictBroker()
        one, other = broker.session(), broker.session()
        await one.begin()
        await other.begin()
        await one.store(frames(0, 1, 2))
        found = await answers(other, frames(0, 1, 2, 3))
        assert [answer.get("duplicate", False) for answer in found] == [True, True, True, False]
        assert broker.values == [b"0", b"1", b"2", b"3"]

    asyncio.run(run())


def test_one_that_is_too_large_does_not_take_others_with_it() -> None:
    async def run() -> None:
        broker = StrictBroker()
        broker.bytes_max = 5
        session = broker.session()
        await session.begin()
        large = Frame(b"x" * 10, sequence=2)
        found = await answers(session, [*frames(0, 1), large, *frames(3), Frame(b"2", sequence=2)])
        assert [answer.get("offset") for answer in found] == [0, 1, None, None, 2]
        assert found[2]["message"] == "too large"
        assert found[3]["expected"] == 2

    asyncio.run(run())


def test_numbers_wrap_around_at_31_bits() -> None:
    async def run() -> None:
        broker = StrictBroker()
        first = 3 * 2**31 - 2
        session = broker.session()
        await session.begin()
        found = await answers(session, frames(*range(first, first + 5)))
        assert [answer["offset"] for answer in found] == list(range(5))
        again = broker.session()
        await again.begin()
        assert (await answers(again, frames(first + 4)))[0]["duplicate"] is True
        assert (await answers(again, frames(first + 7)))[0]["expected"] == first + 5

    asyncio.run(run())


@given(st.integers(0, 2**40), st.integers(-(2**29), 2**29))
def test_the_nearest_number(number: int, away: int) -> None:
    wanted = max(number + away, 0)
    assert nearest(number, wanted & SEQUENCE_MASK) == wanted


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(1, 6)), max_size=25))
def test_whatever_is_sent_is_stored_once_and_in_order(plan: list[tuple[int, int, int]]) -> None:
    """Two connections send runs of numbers in any order: what is stored is 0, 1, 2, …"""

    async def run() -> None:
        broker = StrictBroker()
        sessions = [broker.session(), broker.session()]
        for session in sessions:
            await session.begin()
        await sessions[0].store(frames(0))
        for which, first, count in plan:
            for answer in await answers(sessions[which], frames(*range(first, first + count))):
                assert ("offset" in answer) or answer["expected"] == len(broker.values)
        assert broker.values == [b"%d" % number for number in range(len(broker.values))]

    asyncio.run(run())


def test_the_first_registration_of_a_client_counts() -> None:
    clients = Clients()
    record = {"topic": "t", "topic_id": "x", "client": "c", "asked": -1, "producer_id": 5, "partition": 1}
    clients.apply(0, json.dumps(record).encode())
    clients.apply(1, json.dumps({**record, "producer_id": 6}).encode())
    with pytest.raises(MalformedRecordError):
        clients.apply(2, b"not a record")
    clients.apply(3, json.dumps({**record, "topic_id": "y", "producer_id": 7}).encode())
    assert clients.get(("t", "x", "c", -1)) == Client(5, 1)
    assert clients.get(("t", "y", "c", -1)) == Client(7, 1)
    assert clients.get(("t", "x", "c", 0)) is None
