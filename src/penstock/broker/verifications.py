"""Transactional batches that wait until the coordinator says that their transaction is open (KIP-890).

Without this, a batch that was delayed on its way could arrive after its transaction was ended, begin another
one that nobody knows of, and hold up every reader of committed data for ever.

The first batch of a producer's transaction in a partition asks; what the producer sends meanwhile waits in
line behind it, so that the order stays. Producers of different epochs do not wait for each other: the answer
that is right for one that was fenced is wrong for the owner after it. A marker that is written meanwhile ends
the transaction, and with it the worth of an answer that is on its way.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from penstock.groups.messages import Producer

log = logging.getLogger(__name__)

WhenVerified = Callable[[ApiError | None], None]


@dataclass(slots=True, eq=False)
class _Verification:
    waiting: list[WhenVerified] = field(default_factory=list)
    refusal: ErrorCode = ErrorCode.none
    """Set: whatever the coordinator says, its answer is worth nothing any more."""


class Verifications:
    """Of one partition."""

    def __init__(self) -> None:
        self._asked: dict[Producer, _Verification] = {}
        self._alone: dict[int, list[_Verification]] = {}

    def join(self, producer: Producer, when_verified: WhenVerified) -> bool:
        """Wait in line; whether somebody has to `run` the question."""
        is_first = producer not in self._asked
        self._asked.setdefault(producer, _Verification()).waiting.append(when_verified)
        return is_first

    async def run(self, producer: Producer, ask: Callable[[], Awaitable[ErrorCode]]) -> None:
        verification = self._asked[producer]
        code = ErrorCode.coordinator_not_available
        try:
            code = await ask()
        except Exception:
            log.exception("whether the transaction of producer %d is open", producer.id)
        finally:
            # Nobody joins from here on: who waits is told in one go, and later batches find what these did.
            del self._asked[producer]
            if code is ErrorCode.none:
                code = verification.refusal
            error = None if code is ErrorCode.none else ApiError(code, "the transaction is not open here")
            for when_verified in verification.waiting:
                when_verified(error)

    async def verified(self, producer_id: int, ask: Callable[[], Awaitable[ErrorCode]]) -> None:
        """Ask for something that nothing else waits behind. Raises ApiError.

        What the caller does next, without waiting, comes before any marker that is written later.
        """
        verification = _Verification()
        asked = self._alone.setdefault(producer_id, [])
        asked.append(verification)
        try:
            code = await ask()
        finally:
            asked.remove(verification)
            if not asked:
                self._alone.pop(producer_id, None)
        if code is ErrorCode.none:
            code = verification.refusal
        if code is not ErrorCode.none:
            raise ApiError(code, "the transaction is not open here")

    def end(self, producer_id: int) -> None:
        """A marker is about to be written."""
        asked = (each for producer, each in self._asked.items() if producer.id == producer_id)
        for verification in (*self._alone.get(producer_id, ()), *asked):
            verification.refusal = ErrorCode.invalid_txn_state

    def resign(self) -> None:
        """The leader epoch is over. Who led meanwhile may have written markers that void the answers."""
        for verification in self._asked.values():
            verification.refusal = ErrorCode.not_leader_or_follower
        for verification in (each for alone in self._alone.values() for each in alone):
            verification.refusal = ErrorCode.not_coordinator
