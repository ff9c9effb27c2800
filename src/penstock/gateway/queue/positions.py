"""What consumers have got: the state that a partition of the positions log describes. Pure.

A gateway that wants to hand out the message at offset `o` of a topic's partition appends a *claim*: consumer,
partition, `o`, and the position it takes the consumer to be at. Claims are applied in log order, and a claim
holds only if the consumer is still at that position; otherwise somebody was faster, and the gateway tries
again. All gateways see the same log, so all agree on every claim, and no message is handed out twice.

A claim may carry the client's request id. The last few are remembered with what they got: a repeated id gets
the same message, also when two gateways claim for it at the same moment.

A *checkpoint* is the whole state before some offset, in parts. It lets the log be trimmed: a log that does
not begin at 0 says nothing until a checkpoint in it is complete. Claims since that offset are applied then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple

import orjson

from penstock.gateway.queue.strict import MalformedRecordError, decode, is_number, is_text, require

REMEMBERED_REQUESTS: Final = 64
"""For each consumer. Gateways must agree on it, so it is no setting."""
REQUEST_ID_LENGTH_MAX: Final = 128
TOPIC_ID_LENGTH_MAX: Final = 100
CHECKPOINT_PART_BYTES: Final = 256 * 1024
CHECKPOINT_PARTS_MAX: Final = 100_000


class Handed(NamedTuple):
    """A message that a consumer got."""

    partition: int
    offset: int


class Verdict(Enum):
    GRANTED = auto()
    """The message belongs to the claim's request."""
    REPEATED = auto()
    """The request had got a message before, and gets that one."""
    LOST = auto()
    """The consumer was not where the claim took it to be."""


class Outcome(NamedTuple):
    verdict: Verdict
    handed: Handed | None


LOST: Final = Outcome(Verdict.LOST, None)


class Claim(NamedTuple):
    consumer: int
    request_id: str | None
    was: str | None
    """The id of the topic that the consumer was reading, as the gateway knew it; None at first."""
    topic_id: str
    """The id of the topic that the message is in. Another one than `was`: all positions begin anew."""
    partition: int
    expected: int | None
    """The consumer's position, as the gateway knew it; None at the beginning of the partition."""
    offset: int

    def encode(self) -> bytes:
        return orjson.dumps(["claim", *self])

    @classmethod
    def decode(cls, fields: list[Any]) -> Claim:
        """MalformedRecordError."""
        require(len(fields) == len(cls._fields), "a claim with missing or further fields")
        claim = cls(*fields)
        require(is_number(claim.consumer, 1), "a claim of nobody")
        require(
            claim.request_id is None or is_text(claim.request_id, REQUEST_ID_LENGTH_MAX),
            "a claim with a wrong request id",
        )
        require(claim.was is None or is_text(claim.was, TOPIC_ID_LENGTH_MAX), "a claim with a wrong topic id")
        require(is_text(claim.topic_id, TOPIC_ID_LENGTH_MAX), "a claim with a wrong topic id")
        require(is_number(claim.partition), "a claim with a wrong partition")
        require(claim.expected is None or is_number(claim.expected), "a claim with a wrong position")
        require(is_number(claim.offset), "a claim with a wrong offset")
        return claim


@dataclass(slots=True)
class ConsumerState:
    topic_id: str | None = None
    positions: dict[int, int] = field(default_factory=dict)
    """The next offset of each partition that something was read from."""
    last_partition: int = -1
    requests: OrderedDict[str, Handed] = field(default_factory=OrderedDict)

    def position(self, topic_id: str, partition: int) -> int | None:
        return self.positions.get(partition) if topic_id == self.topic_id else None

    def positions_in(self, topic_id: str) -> dict[int, int]:
        """A copy of all of them; none in a topic that the consumer has not read."""
        return dict(self.positions) if topic_id == self.topic_id else {}

    def encode(self) -> list[Any]:
        requests = [[request, *handed] for request, handed in self.requests.items()]
        return [self.topic_id, sorted(self.positions.items()), self.last_partition, requests]

    @classmethod
    def decode(cls, encoded: list[Any]) -> ConsumerState:
        """MalformedRecordError."""
        match encoded:
            case [str() | None as topic_id, list(positions), last_partition, list(requests)]:
                require(is_number(last_partition, -1), "a state with a wrong partition")
                return cls(
                    topic_id, dict(map(_position, positions)), last_partition,
                    OrderedDict(map(_request, requests)),
                )  # fmt: skip
        raise MalformedRecordError("a state of another shape")


def _position(encoded: Any) -> tuple[int, int]:
    match encoded:
        case [partition, offset] if is_number(partition) and is_number(offset):
            return partition, offset
    raise MalformedRecordError("a state with a wrong position")


def _request(encoded: Any) -> tuple[str, Handed]:
    match encoded:
        case [request, partition, offset] if is_number(partition) and is_number(offset):
            require(is_text(request, REQUEST_ID_LENGTH_MAX), "a state with a wrong request id")
            return request, Handed(partition, offset)
    raise MalformedRecordError("a state with a wrong request")


NOTHING_READ: Final = ConsumerState()
"""Of consumers that the log does not name. Not to be changed."""


class Positions:
    """The state of one partition of the log. `begin` comes first, then `apply` for each record in order."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, log_start: int) -> None:
        """Forget everything; the log is read from its start."""
        self._consumers: dict[int, ConsumerState] = {}
        self._log_start = self._next = log_start
        self._waiting: list[tuple[int, Claim]] | None = None if log_start == 0 else []
        self._parts: dict[str, dict[int, dict[int, ConsumerState]]] = {}
        self.claims_since_checkpoint = 0
        self.late: dict[int, Outcome] = {}
        """What became of claims that were read before the checkpoint that made sense of them."""
        self.checkpoint: int | None = None
        """All before this offset is in a checkpoint that the log holds."""

    @property
    def is_known(self) -> bool:
        """False while a trimmed log has not shown a whole checkpoint."""
        return self._waiting is None

    def of(self, consumer: int) -> ConsumerState:
        return self._consumers.get(consumer, NOTHING_READ)

    def __len__(self) -> int:
        return len(self._consumers)

    def apply(self, offset: int, value: bytes) -> Outcome | None:
        """What became of the claim in this record; None for other records. MalformedRecordError."""
        self._next = offset + 1
        match decode(value):
            case ["claim", *fields]:
                claim = Claim.decode(fields)
                if self._waiting is None:
                    return self._claim(claim)
                self._waiting.append((offset, claim))
            case ["checkpoint", str(name), before, part, parts, list(states)]:
                require(is_number(before) and before <= offset, "a checkpoint of what is to come")
                require(is_number(part) and is_number(parts, 1), "a checkpoint with wrong parts")
                require(part < parts <= CHECKPOINT_PARTS_MAX, "a checkpoint with wrong parts")
                self._checkpoint(name, before, part, parts, dict(map(_state, states)))
            case _:
                raise MalformedRecordError("neither a claim nor a checkpoint")
        return None

    def _claim(self, claim: Claim) -> Outcome:
        self.claims_since_checkpoint += 1
        state = self.of(claim.consumer)
        if claim.request_id is not None and claim.request_id in state.requests:
            return Outcome(Verdict.REPEATED, state.requests[claim.request_id])
        if claim.was != state.topic_id or claim.expected != state.position(claim.topic_id, claim.partition):
            return LOST
        if state.topic_id != claim.topic_id:  # also the first claim of a consumer
            state = self._consumers[claim.consumer] = ConsumerState(claim.topic_id)
        handed = Handed(claim.partition, claim.offset)
        state.positions[claim.partition] = claim.offset + 1
        state.last_partition = claim.partition
        if claim.request_id is not None:
            state.requests[claim.request_id] = handed
            if len(state.requests) > REMEMBERED_REQUESTS:
                state.requests.popitem(last=False)
        return Outcome(Verdict.GRANTED, handed)

    def _checkpoint(
        self, name: str, before: int, part: int, parts: int, states: dict[int, ConsumerState]
    ) -> None:
        found = self._parts.setdefault(name, {})
        found[part] = states
        if len(found) < parts:
            return
        del self._parts[name]
        if before < self._log_start:
            return  # claims after it are gone; another one made it possible to remove them
        if self._waiting is not None:
            self._consumers = {consumer: state for each in found.values() for consumer, state in each.items()}
            waiting, self._waiting = self._waiting, None
            self.late = {offset: self._claim(claim) for offset, claim in waiting if offset >= before}
        self._parts.clear()  # of those that are not whole yet nobody here has need
        if self.checkpoint is None or before > self.checkpoint:
            self.checkpoint = before
        self.claims_since_checkpoint = 0

    def consumers(self) -> list[int]:
        return list(self._consumers)

    def forget(self, consumers: Iterable[int]) -> None:
        """Those for whom nobody will claim any more."""
        for consumer in consumers:
            self._consumers.pop(consumer, None)

    def checkpoint_records(self, name: str) -> list[bytes]:
        """The state as it is now. `name` is unique; the records may be appended among any others."""
        parts = list(self._split_states())
        return [
            b'["checkpoint","%s",%d,%d,%d,[%s]]' % (name.encode(), self._next, i, len(parts), part)
            for i, part in enumerate(parts)
        ]

    def _split_states(self) -> Iterator[bytes]:
        """The encoded states, together about as long as a record should be."""
        batch: list[bytes] = []
        size = 0
        for consumer, state in self._consumers.items():
            encoded = orjson.dumps([consumer, state.encode()])
            if batch and size + len(encoded) > CHECKPOINT_PART_BYTES:
                yield b",".join(batch)
                batch, size = [], 0
            batch.append(encoded)
            size += len(encoded) + 1
        yield b",".join(batch)


def _state(encoded: Any) -> tuple[int, ConsumerState]:
    match encoded:
        case [consumer, list(state)] if is_number(consumer, 1):
            return consumer, ConsumerState.decode(state)
    raise MalformedRecordError("a checkpoint with a state of nobody")
