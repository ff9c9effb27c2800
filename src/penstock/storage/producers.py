"""What idempotent producers wrote last: how a repeated batch is recognised, and what of it is in doubt. Pure.

Per producer id the epoch and the last five batches are kept, as many as a producer may have in flight.
A batch is checked before it is appended (`check`) and noted when it is (`update`); replaying the headers of
a log through `update` gives the same state again, so that it need not be written at each step. Markers of
transactions count too: they carry the epoch of the transaction's owner, and end what is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.storage.transactions import Transactions
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from penstock.wire.batch import BatchHeader
    from penstock.wire.control import Marker

BATCHES_KEPT = 5
SEQUENCE_MASK = 0x7FFFFFFF
NO_COORDINATOR_EPOCH = -1


class BatchEntry(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Duplicate(NamedTuple):
    """A batch that is in the log already, and where."""

    base_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    __slots__ = ("active_ms", "batches", "coordinator_epoch", "epoch")

    def __init__(self, epoch: int, active_ms: int) -> None:
        self.epoch = epoch
        self.active_ms = active_ms
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        """Of the coordinator that ended its last transaction."""
        self.batches: list[BatchEntry] = []


class ProducerStates:
    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.transactions = Transactions()

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Whether the batch may be appended (None) or is there already; ApiError when it is neither.

        A producer that is not known, for instance after expiry, may begin with any sequence.
        """
        if header.producer_id == NO_PRODUCER_ID:
            return None
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        if header.producer_epoch != state.epoch:
            _check_new_epoch(header, state)
            return None
        if not header.is_transactional and header.producer_id in self.transactions.open:
            raise ApiError(
                ErrorCode.invalid_txn_state, f"producer {header.producer_id} has an open transaction here"
            )
        if not state.batches:
            return None
        base_sequence = header.base_sequence
        if base_sequence == (state.batches[-1].last_sequence + 1) & SEQUENCE_MASK:
            return None
        last_sequence = header.last_sequence
        for entry in state.batches:
            if entry.base_sequence == base_sequence and entry.last_sequence == last_sequence:
                return Duplicate(entry.base_offset, entry.last_offset, entry.timestamp)
        latest = state.batches[-1].last_sequence
        raise ApiError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} sent sequence {base_sequence} after {latest}",
        )

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """What a producer of this epoch has to send next; None if nothing is known of it."""
        state = self._states.get(producer_id)
        if state is None or state.epoch != epoch or not state.batches:
            return None
        return (state.batches[-1].last_sequence + 1) & SEQUENCE_MASK

    def has(self, header: BatchHeader) -> bool:
        """Whether this very batch is in the log."""
        state = self._states.get(header.producer_id)
        return (
            state is not None
            and state.epoch == header.producer_epoch
            and any(
                (entry.base_sequence, entry.last_sequence) == (header.base_sequence, header.last_sequence)
                for entry in state.batches
            )
        )

    def check_marker(self, producer_id: int, producer_epoch: int, marker: Marker) -> None:
        """Whether the marker may be appended: neither its producer nor its coordinator is of the past."""
        state = self._states.get(producer_id)
        if state is None:
            return
        if producer_epoch < state.epoch:
            raise ApiError(
                ErrorCode.invalid_producer_epoch,
                f"a marker for epoch {producer_epoch} of producer {producer_id}, known is {state.epoch}",
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise ApiError(
                ErrorCode.transaction_coordinator_fenced,
                f"a marker of coordinator epoch {marker.coordinator_epoch},"
                f" known is {state.coordinator_epoch}",
            )

    def update(
        self, header: BatchHeader, base_offset: int, now_ms: int, marker: Marker | None = None
    ) -> None:
        """Note an appended batch; `base_offset` is the assigned one, whatever the header says.

        `marker` is what a control batch holds, if it ends a transaction.
        """
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(header.producer_epoch, now_ms)
        state.active_ms = now_ms
        batches = state.batches
        if header.producer_epoch != state.epoch:
            state.epoch = header.producer_epoch
            batches.clear()
        if header.is_control:  # it has no sequence
            if marker is not None:
                state.coordinator_epoch = marker.coordinator_epoch
                self.transactions.end(producer_id, base_offset, is_commit=marker.is_commit)
            return
        if header.is_transactional:
            self.transactions.begin(producer_id, base_offset)
        batches.append(
            BatchEntry(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta,
                header.max_timestamp,
            )
        )
        if len(batches) > BATCHES_KEPT:
            del batches[0]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for so long and have no open transaction; how many."""
        silent = [
            key
            for key, state in self._states.items()
            if now_ms - state.active_ms >= expiration_ms and key not in self.transactions.open
        ]
        for producer_id in silent:
            del self._states[producer_id]
        return len(silent)

    def last_offsets(self) -> dict[int, int]:
        """Per producer the last offset of its last batch, of which compaction keeps at least the header."""
        return {key: state.batches[-1].last_offset for key, state in self._states.items() if state.batches}

    def to_json(self) -> list[Any]:
        return [
            [
                producer_id,
                state.epoch,
                state.active_ms,
                [list(entry) for entry in state.batches],
                state.coordinator_epoch,
            ]
            for producer_id, state in self._states.items()
        ]

    @classmethod
    def from_json(cls, value: list[Any]) -> ProducerStates:
        states = cls()
        for producer_id, epoch, active_ms, batches, *more in value:
            state = states._states[producer_id] = ProducerState(epoch, active_ms)
            state.batches = [BatchEntry(*entry) for entry in batches]
            state.coordinator_epoch = more[0] if more else NO_COORDINATOR_EPOCH
        return states


def _check_new_epoch(header: BatchHeader, state: ProducerState) -> None:
    if header.producer_epoch < state.epoch:
        raise ApiError(
            ErrorCode.invalid_producer_epoch,
            f"producer {header.producer_id} uses epoch {header.producer_epoch}, known is {state.epoch}",
        )
    if header.base_sequence != 0:
        raise ApiError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} begins epoch {header.producer_epoch} "
            f"with sequence {header.base_sequence}",
        )
