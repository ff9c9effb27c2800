"""What is known of all transactions by an observer that sees every client and reader, and what must hold.

A reader of committed data sees a transaction only after its owner asked for the commit (neither open nor
aborted data), the same from every broker and for ever, each record once, and owners in the order of their
epochs. In the end each transaction is seen as a whole or not at all, as its owner was told, and with it the
position that its owner had come to: the inputs that were processed are 0, 1, 2 and so on, each once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from penstock.wire.batch import iterate_headers
from penstock.wire.control import maybe_marker
from penstock.wire.records import Record, decode_records, encode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.types import TopicPartition
    from penstock.wire.batch import BatchHeader

NO_INPUT = -1


class Message(NamedTuple):
    transaction: int
    number: int
    input: int
    """Which of the owner's inputs it comes from, if its position is part of the transaction."""


class Seen(NamedTuple):
    message: Message
    owner: tuple[int, int]


@dataclass
class Transaction:
    number: int
    transactional_id: str
    messages: dict[TopicPartition, list[Message]] = field(default_factory=dict)
    is_commit_asked: bool = False
    is_committed: bool = False
    """Its owner was told so."""
    is_refused: bool = False
    """Its owner was told, at its first try, that it cannot be committed."""


def encode(messages: Sequence[Message], attributes: int, owner: tuple[int, int], base_sequence: int) -> bytes:
    records = [Record(at, 0, b"k", b"%d:%d:%d" % message) for at, message in enumerate(messages)]
    return encode_batch(
        records,
        attributes=attributes,
        producer_id=owner[0],
        producer_epoch=owner[1],
        base_sequence=base_sequence,
    )


@lru_cache(maxsize=8192)
def decode(batch: bytes, header: BatchHeader) -> tuple[tuple[int, Message], ...]:
    return tuple(
        (record.offset, Message(*map(int, (record.value or b"").split(b":"))))
        for record in decode_records(batch, header)
    )


def committed_in(data: bytes, aborted: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Seen | None]]:
    """What a client makes of a fetch: each offset with what it shows there, or nothing.

    A producer's records are left out from where the broker says that an aborted transaction begins up to the
    marker that ends it.
    """
    coming = sorted(aborted, key=lambda each: each[1])
    left_out: set[int] = set()
    for position, header in iterate_headers(memoryview(data)):
        while coming and coming[0][1] <= header.last_offset:
            left_out.add(coming.pop(0)[0])
        batch = data[position : position + header.size]
        if header.is_control:
            marker = maybe_marker(batch, header)
            if marker is not None and not marker.is_commit:
                left_out.discard(header.producer_id)
            yield header.base_offset, None
            continue
        owner = header.producer_id, header.producer_epoch
        is_shown = header.producer_id not in left_out
        for offset, message in decode(batch, header):
            yield offset, Seen(message, owner) if is_shown else None


class Truth:
    def __init__(self) -> None:
        self.transactions: dict[int, Transaction] = {}
        self.shown: dict[TopicPartition, list[Seen | None]] = {}
        """By offset, what readers of committed data were shown."""
        self._owners: dict[tuple[TopicPartition, str], tuple[int, int]] = {}
        self._messages: dict[TopicPartition, set[Message]] = {}

    def begin(self, transactional_id: str) -> Transaction:
        number = len(self.transactions)
        self.transactions[number] = Transaction(number, transactional_id)
        return self.transactions[number]

    def read(self, who: str, where: TopicPartition, start: int, found: list[tuple[int, Seen | None]]) -> None:
        shown = self.shown.setdefault(where, [])
        for offset, seen in found:
            if offset < start:
                continue
            if offset < len(shown):
                assert shown[offset] == seen, (
                    f"{who} shows {seen} in {where} at {offset}, not {shown[offset]}"
                )
                continue
            assert offset == len(shown), f"{who} skips {len(shown)} in {where}"
            if seen is not None:
                self._check(who, where, seen)
            shown.append(seen)

    def _check(self, who: str, where: TopicPartition, seen: Seen) -> None:
        transaction = self.transactions[seen.message.transaction]
        assert transaction.is_commit_asked, f"{who} shows {seen} in {where}, and nobody asked to commit that"
        assert not transaction.is_refused, f"{who} shows {seen} in {where}, and its commit was refused"
        messages = self._messages.setdefault(where, set())
        assert seen.message not in messages, f"{who} shows {seen} twice in {where}"
        messages.add(seen.message)
        key = where, transaction.transactional_id
        before = self._owners.get(key, (-1, -1))
        assert seen.owner >= before, (
            f"{who} shows {seen} in {where} after what {before} wrote, who replaced it"
        )
        self._owners[key] = seen.owner

    # In the end

    def check_all(self, positions: dict[str, int]) -> None:
        for transaction in self.transactions.values():
            self._check_whole(transaction)
        inputs: dict[str, Counter[int]] = {name: Counter() for name in positions}
        for messages in self._messages.values():
            for message in messages:
                if message.input != NO_INPUT:
                    inputs[self.transactions[message.transaction].transactional_id][message.input] += 1
        for name, position in positions.items():
            expected = Counter(range(position))
            wrong = (inputs[name] - expected) + (expected - inputs[name])
            assert not wrong, f"{name} is at {position}, and the inputs {dict(wrong)} were not processed once"

    def _check_whole(self, transaction: Transaction) -> None:
        shown = {
            message
            for where, messages in transaction.messages.items()
            for message in messages
            if message in self._messages.get(where, ())
        }
        all_of_it = {message for messages in transaction.messages.values() for message in messages}
        if transaction.is_committed:
            assert shown == all_of_it, f"committed, and lost: {sorted(all_of_it - shown)}"
        assert not (transaction.is_refused and shown), f"refused, and shown: {sorted(shown)}"
        assert not shown or shown == all_of_it, f"torn: {sorted(all_of_it - shown)} without {sorted(shown)}"
