"""Gateways that claim for the same consumers through one log, in any order, with any of them restarted.

The log is a list; each gateway has a view of it that is some way behind. What gateways may do is what the
real ones do: look at their view, append a claim based on it, read on, write checkpoints, trim, start again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.gateway.queue.positions import (
    CHECKPOINT_PART_BYTES,
    REMEMBERED_REQUESTS,
    Claim,
    Handed,
    Outcome,
    Positions,
    Verdict,
)
from penstock.gateway.queue.strict import MalformedRecordError
from tests.support.examples import HISTORIES

TOPIC = "topic-id"
CONSUMERS = (1, 2)
PARTITIONS = (0, 1)
GATEWAYS = 3


@dataclass
class Log:
    start: int = 0
    values: list[bytes] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.values)

    def append(self, value: bytes) -> int:
        self.values.append(value)
        return self.end - 1

    def trim(self, before: int) -> None:
        if before > self.start:
            del self.values[: before - self.start]
            self.start = before


class View:
    """A gateway's reading of the log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.positions = Positions()
        self.restart()

    def restart(self) -> None:
        self.positions.begin(self.log.start)
        self.applied = self.log.start
        self.outcomes: dict[int, Outcome | None] = {}

    def read(self, count: int) -> None:
        if self.applied < self.log.start:  # trimmed under us
            self.restart()
        for offset in range(self.applied, min(self.applied + count, self.log.end)):
            self.outcomes[offset] = self.positions.apply(offset, self.log.values[offset - self.log.start])
            self.applied = offset + 1

    def read_all(self) -> None:
        self.read(self.log.end)


@dataclass
class Pending:
    gateway: int
    offset: int
    claim: Claim


class Gateways(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.log = Log()
        self.views = [View(self.log) for _ in range(GATEWAYS)]
        self.pending: list[Pending] = []
        self.handed: dict[tuple[int, Handed], set[str]] = defaultdict(set)
        """For each consumer and message, the requests that got it."""
        self.order: dict[tuple[int, int], list[int]] = defaultdict(list)
        """For each consumer and partition, what was granted, in log order."""
        self.requests = 0
        self.recent: list[tuple[int, str]] = []

    @rule(
        gateway=st.integers(0, GATEWAYS - 1),
        consumer=st.sampled_from(CONSUMERS),
        partition=st.sampled_from(PARTITIONS),
        repeat=st.booleans(),
        data=st.data(),
    )
    def claim(self, gateway: int, consumer: int, partition: int, repeat: bool, data: st.DataObject) -> None:
        view = self.views[gateway]
        if not view.positions.is_known:
            view.read_all()
        mine = [request for owner, request in self.recent if owner == consumer]
        if repeat and mine:
            request = data.draw(st.sampled_from(mine))
        else:
            self.requests += 1
            request = f"r{self.requests}"
            self.recent = [*self.recent, (consumer, request)][-REMEMBERED_REQUESTS // 4 :]
        state = view.positions.of(consumer)
        if (handed := state.requests.get(request)) is not None:
            self.handed[consumer, handed].add(request)
            return
        expected = state.position(TOPIC, partition)
        claim = Claim(consumer, request, state.topic_id, TOPIC, partition, expected, expected or 0)
        self.pending.append(Pending(gateway, self.log.append(claim.encode()), claim))

    @rule(gateway=st.integers(0, GATEWAYS - 1), count=st.integers(1, 5))
    def read(self, gateway: int, count: int) -> None:
        self.views[gateway].read(count)

    @rule()
    def answer(self) -> None:
        """The oldest claim that waits is read back, and the message handed out if it holds."""
        if not self.pending:
            return
        waiting = self.pending.pop(0)
        view = self.views[waiting.gateway]
        view.read_all()
        outcome = view.outcomes.get(waiting.offset)
        if outcome is None or outcome.handed is None:
            return
        assert waiting.claim.request_id is not None
        self.handed[waiting.claim.consumer, outcome.handed].add(waiting.claim.request_id)
        if outcome.verdict is Verdict.GRANTED:
            self.order[waiting.claim.consumer, outcome.handed.partition].append(outcome.handed.offset)

    @rule(gateway=st.integers(0, GATEWAYS - 1))
    def crash(self, gateway: int) -> None:
        self.views[gateway].restart()
        self.pending = [pending for pending in self.pending if pending.gateway != gateway]

    @rule(gateway=st.integers(0, GATEWAYS - 1), torn=st.booleans())
    def checkpoint(self, gateway: int, torn: bool) -> None:
        """Of a view that may be behind, and by a gateway that may die before the last part."""
        view = self.views[gateway]
        if view.positions.is_known:
            records = view.positions.checkpoint_records(f"c{self.log.end}")
            for record in records[: len(records) - torn]:
                self.log.append(record)

    @rule(gateway=st.integers(0, GATEWAYS - 1))
    def trim(self, gateway: int) -> None:
        view = self.views[gateway]
        # What waits is read before: a gateway whose claim is gone answers nothing.
        while self.pending:
            self.answer()
        if view.positions.checkpoint is not None:
            self.log.trim(view.positions.checkpoint)

    @invariant()
    def each_message_goes_to_one_request_in_order(self) -> None:
        assert all(len(requests) == 1 for requests in self.handed.values()), self.handed
        for offsets in self.order.values():
            assert offsets == sorted(set(offsets)), offsets

    def teardown(self) -> None:
        """All that read the whole log agree, whether they have read all of it or began at a checkpoint."""
        if not hasattr(self, "views"):
            return
        for view in self.views:
            view.read_all()
        fresh = View(self.log)
        fresh.read_all()
        assert fresh.positions.is_known
        states = [[view.positions.of(consumer) for consumer in CONSUMERS] for view in [*self.views, fresh]]
        assert all(state == states[0] for state in states), states


TestGateways = Gateways.TestCase
TestGateways.settings = settings(max_examples=HISTORIES, stateful_step_count=60)


def claim(
    offset: int, *, request: str | None = None, expected: int | None = None, was: str | None = TOPIC
) -> bytes:
    return Claim(7, request, was, TOPIC, 0, expected, offset).encode()


def test_the_first_of_two_equal_claims_is_granted() -> None:
    positions = Positions()
    assert positions.apply(0, claim(0, was=None)) == Outcome(Verdict.GRANTED, Handed(0, 0))
    assert positions.apply(1, claim(0, was=None)) == Outcome(Verdict.LOST, None)
    assert positions.apply(2, claim(1, expected=1)) == Outcome(Verdict.GRANTED, Handed(0, 1))


def test_a_request_gets_what_it_got_before() -> None:
    positions = Positions()
    positions.apply(0, claim(0, request="r", was=None))
    assert positions.apply(1, claim(1, request="r", expected=1)) == Outcome(Verdict.REPEATED, Handed(0, 0))
    assert positions.of(7).positions == {0: 1}


def test_old_requests_are_forgotten() -> None:
    positions = Positions()
    for offset in range(REMEMBERED_REQUESTS + 1):
        first = offset == 0
        positions.apply(
            offset,
            claim(
                offset, request=f"r{offset}", expected=None if first else offset, was=None if first else TOPIC
            ),
        )
    assert "r0" not in positions.of(7).requests
    assert len(positions.of(7).requests) == REMEMBERED_REQUESTS


def test_a_topic_that_was_created_again_is_read_from_its_beginning() -> None:
    positions = Positions()
    positions.apply(0, claim(0, was=None, request="r"))
    again = Claim(7, "s", TOPIC, "another", 0, None, 0)
    assert positions.apply(1, again.encode()) == Outcome(Verdict.GRANTED, Handed(0, 0))
    late = Claim(7, "t", TOPIC, TOPIC, 0, 1, 1)
    assert positions.apply(2, late.encode()) == Outcome(Verdict.LOST, None)
    assert positions.of(7).positions == {0: 1}
    assert list(positions.of(7).requests) == ["s"]


def test_a_large_state_is_split_and_found_whole() -> None:
    positions = Positions()
    consumers = 2_000
    for consumer in range(1, consumers + 1):
        request = f"{consumer}-" + "x" * 100
        positions.apply(consumer - 1, Claim(consumer, request, None, TOPIC, 0, None, 5).encode())
    records = positions.checkpoint_records("c")
    assert len(records) > 1
    assert all(len(record) < CHECKPOINT_PART_BYTES + 10_000 for record in records)
    found = Positions()
    found.begin(consumers)
    for offset, record in enumerate(reversed(records)):
        assert not found.is_known
        found.apply(consumers + offset, record)
    assert found.is_known
    assert found.checkpoint == consumers
    assert all(found.of(consumer) == positions.of(consumer) for consumer in range(1, consumers + 1))


def test_an_empty_state_has_a_checkpoint_too() -> None:
    empty = Positions()
    with pytest.raises(MalformedRecordError):
        empty.apply(9, b"null")
    (record,) = empty.checkpoint_records("c")
    found = Positions()
    found.begin(10)
    found.apply(10, record)
    assert found.is_known
    assert len(found) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


@given(st.binary(max_size=50) | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_strangers_write_means_nothing(value: bytes) -> None:
    positions = Positions()
    with pytest.raises(MalformedRecordError):
        positions.apply(0, value)
    assert len(positions) == 0
