"""The transactions of one partition of `__transaction_state`, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.broker.coordinator_shard import CoordinatorShard, KeyValue
from penstock.broker.deadlines import Deadlines
from penstock.transactions.messages import Answer, Effect, Reply, SendMarkers, Write
from penstock.transactions.records import CONFIRMATION
from penstock.transactions.shard import Shard

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.broker.transaction_markers import TransactionMarkers
    from penstock.transactions.limits import TransactionLimits
    from penstock.transactions.transaction import Transaction
    from penstock.types import ErrorCode
    from penstock.wire.batch import BatchHeader
    from penstock.wire.records import Record


class TransactionShard(CoordinatorShard[Write, Reply]):
    confirmation = CONFIRMATION

    def __init__(
        self,
        partition: Partition,
        limits: TransactionLimits,
        now_ms: Callable[[], int],
        markers: TransactionMarkers,
    ) -> None:
        super().__init__(partition, now_ms)
        self.core = Shard(limits)
        self._markers = markers
        self._deadlines: Deadlines[Transaction] = Deadlines(now_ms, self._expire)
        self._unsettled: dict[str, asyncio.Event] = {}
        """For those who wait until nothing is on its way for an id."""

    def replay(self, record: Record, _header: BatchHeader) -> None:
        self.core.replay(record.key or b"", record.value)

    def loaded(self) -> str:
        self._carry_out(self.core.finish_loading())
        for transaction in self.core.transactions.values():
            self._schedule(transaction)
        return f"{len(self.core.transactions)} transactional ids"

    async def request(self, request: Callable[[int, int], list[Effect]]) -> Reply:
        """Give the core a request, as a function of a token and the time, and wait for its answer."""
        return await self.ask(lambda token: self._carry_out(request(token, self.now_ms())))

    async def settled(self, transactional_id: str, timeout_s: float) -> bool:
        """Wait while a change of the id, or the end of its transaction, is on its way; whether that came."""
        transaction = self.core.transactions.get(transactional_id)
        if transaction is None or not transaction.is_busy:
            return True
        event = self._unsettled.setdefault(transactional_id, asyncio.Event())
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                self.answer(effect.token, effect.reply)
            elif isinstance(effect, Write):
                self.write(effect)
            else:
                self._send(effect)

    def _send(self, markers: SendMarkers) -> None:
        def done() -> None:
            if not self.is_resigned:
                self._carry_out(self.core.marked(markers.identity, self.now_ms()))

        self._markers.send(markers, self.leader_epoch, lambda: not self.is_resigned, done)

    def records_of(self, write: Write) -> Sequence[KeyValue]:
        return (write.record,)

    def written(self, write: Write, error: ErrorCode) -> None:
        transaction = write.transaction
        self._carry_out(self.core.written(write, error, self.now_ms()))
        self._schedule(transaction)
        if not transaction.is_busy:
            event = self._unsettled.pop(transaction.transactional_id, None)
            if event is not None:
                event.set()

    def _expire(self, transaction: Transaction) -> None:
        self._carry_out(self.core.expire(transaction, self.now_ms()))
        self._schedule(transaction)

    def _schedule(self, transaction: Transaction) -> None:
        self._deadlines.set(transaction, transaction.next_deadline_ms(self.core.limits))

    def stop_timers(self) -> None:
        self._deadlines.close()
