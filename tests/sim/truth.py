"""What is known of one partition by an observer that sees every node at once, and what must hold of it.

`committed` is the longest prefix that any replica ever called committed. It may only grow, and every replica
that calls something committed, every new leader and every member of the in-sync set must agree with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.wire.batch import read_header
from penstock.wire.records import Record, decode_records, encode_batch

if TYPE_CHECKING:
    from penstock.storage import PartitionLog

READ_BYTES = 500
"""A few batches: what is read is read in many pieces."""


class Message(NamedTuple):
    """What a producer wrote; the sequence counts its messages in the partition, downwards from -1 if they
    may be lost or repeated."""

    producer_id: int
    sequence: int


class Entry(NamedTuple):
    leader_epoch: int
    message: Message


def encode(messages: list[Message], *, is_idempotent: bool) -> bytes:
    first = messages[0]
    records = [Record(at, 0, None, b"%d:%d" % message) for at, message in enumerate(messages)]
    if not is_idempotent:
        return encode_batch(records)
    return encode_batch(
        records, producer_id=first.producer_id, producer_epoch=0, base_sequence=first.sequence
    )


@lru_cache(maxsize=4096)
def decode(batch: bytes) -> tuple[tuple[int, Entry], ...]:
    epoch = read_header(batch).partition_leader_epoch
    found = []
    for record in decode_records(batch):
        assert record.value is not None
        producer_id, sequence = record.value.split(b":")
        found.append((record.offset, Entry(epoch, Message(int(producer_id), int(sequence)))))
    return tuple(found)


def entries(log: PartitionLog, start: int, end_offset: int) -> Iterator[tuple[int, Entry]]:
    """What the log holds from `start` to before `end_offset`, as a reader gets it."""
    offset = max(start, log.log_start_offset)
    while offset < end_offset and (data := bytes(log.read(offset, READ_BYTES, end_offset=end_offset))):
        position = 0
        while position < len(data):
            size = read_header(data, position).size
            for at, entry in decode(data[position : position + size]):
                if start <= at < end_offset:
                    yield at, entry
                offset = at + 1
            position += size


class PartitionTruth:
    def __init__(self) -> None:
        self.committed: list[Entry] = []
        self.deleted = 0
        """What is before may be gone."""
        self._leaders: dict[int, UUID] = {}
        self._committed_in: dict[int, int] = {}
        """Up to where the leader of an epoch called the log committed."""
        self._written: dict[tuple[int, int], Message] = {}
        self._next_sequences: dict[int, int] = {}

    def leads(self, broker_id: int, incarnation: UUID, leader_epoch: int, log: PartitionLog) -> None:
        leader = self._leaders.setdefault(leader_epoch, incarnation)
        assert leader == incarnation, f"two processes lead in epoch {leader_epoch}, the second on {broker_id}"
        # Its epoch may be over before it begins, and then it need not have what others committed since.
        before = [end for epoch, end in self._committed_in.items() if epoch < leader_epoch]
        self.holds(f"{broker_id}, which leads epoch {leader_epoch},", log, max(before, default=0))

    def holds(self, who: str, log: PartitionLog, end_offset: int, start: int = 0) -> None:
        """A log holds what is committed, from `start` to `end_offset`."""
        held = log.flushed_end_offset
        assert held >= end_offset, f"{who} ends at {held}, and {end_offset} is committed"
        assert log.log_start_offset <= self.deleted, f"{who} starts at {log.log_start_offset}"
        expected = max(start, log.log_start_offset)
        for offset, entry in entries(log, expected, end_offset):
            known = self.committed[offset]
            assert offset == expected, f"{who} lacks offset {expected}"
            assert entry == known, f"{who} has {entry} at {offset}, committed is {known}"
            expected += 1
        assert expected >= end_offset, f"{who} lacks offset {expected}"

    def commits(
        self, who: str, log: PartitionLog, before: int, high_watermark: int, leader_epoch: int
    ) -> bool:
        """A high watermark moved, in that epoch; whether this is news."""
        self._committed_in[leader_epoch] = max(self._committed_in.get(leader_epoch, 0), high_watermark)
        known = len(self.committed)
        assert high_watermark <= log.flushed_end_offset, f"{who} commits {high_watermark}, more than it has"
        self.holds(who, log, min(known, high_watermark), min(before, known))
        for offset, entry in entries(log, known, high_watermark):
            assert offset == len(self.committed), f"{who} commits nothing at {len(self.committed)}"
            self._commit(entry, offset)
        assert len(self.committed) >= high_watermark, f"{who} commits {high_watermark} and lacks some of it"
        return high_watermark > known

    def _commit(self, entry: Entry, offset: int) -> None:
        producer_id, sequence = entry.message
        if sequence >= 0:
            expected = self._next_sequences.get(producer_id, 0)
            assert sequence == expected, (
                f"producer {producer_id}: {sequence} is committed at {offset} where {expected} should follow"
            )
            self._next_sequences[producer_id] = sequence + 1
        self.committed.append(entry)

    def appended(self, who: str, log: PartitionLog, start: int) -> None:
        """One offset in one epoch stands for one message, whoever has it."""
        for offset, (leader_epoch, message) in entries(log, start, log.flushed_end_offset):
            known = self._written.setdefault((leader_epoch, offset), message)
            assert known == message, f"{who} has {message} at {offset} of epoch {leader_epoch}, not {known}"

    def acknowledged(self, messages: list[Message], base_offset: int) -> None:
        found = [entry.message for entry in self.committed[base_offset : base_offset + len(messages)]]
        assert found == messages, f"{messages} acknowledged at {base_offset}, where {found} is committed"
