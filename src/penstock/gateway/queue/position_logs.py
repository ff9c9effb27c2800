"""The positions of all consumers: a topic of several partitions, each a log of its own with checkpoints."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from penstock.gateway.kafka.errors import KafkaClientError, KafkaUnavailableError
from penstock.gateway.queue.positions import Claim, ConsumerState, Outcome, Positions
from penstock.gateway.queue.shared_log import SharedLog

if TYPE_CHECKING:
    from penstock.gateway.kafka.clients import Kafka

log = logging.getLogger(__name__)

TOPIC: Final = "__penstock_positions"
PARTITIONS: Final = 16


AllRegistered = Callable[[], Awaitable[Callable[[int], bool]]]
"""Tells whether a consumer is registered, as of now. Positions of others are given up."""


class PositionLog:
    def __init__(
        self, kafka: Kafka, partition: int, checkpoint_records: int, registered: AllRegistered | None = None
    ) -> None:
        self._partition = partition
        self._positions = Positions()
        self._registered = registered
        self._log = SharedLog(kafka, TOPIC, partition, PARTITIONS, self._positions)
        # Gateways see the same log; that not all of them write the same checkpoint is left to chance.
        self._checkpoint_records = checkpoint_records + random.randrange(1 + checkpoint_records // 10)  # noqa: S311
        self._checkpointing: asyncio.Task[None] | None = None

    async def load(self) -> None:
        await self._log.load()
        if not self._positions.is_known:
            await self._log.catch_up()  # whoever trimmed it has left a checkpoint

    async def catch_up(self) -> None:
        await self._log.catch_up()

    def of(self, consumer: int) -> ConsumerState:
        return self._positions.of(consumer)

    async def claim(self, claim: Claim) -> Outcome:
        offset, outcome = await self._log.append(claim.encode())
        if outcome is None:  # the log was trimmed meanwhile, and makes sense from a later record on
            await self._log.catch_up()
            outcome = self._positions.late.get(offset)
        if not isinstance(outcome, Outcome):
            raise KafkaUnavailableError("what became of the request is not known")
        self._checkpoint_if_due()
        return outcome

    def _checkpoint_if_due(self) -> None:
        # A checkpoint is as long as there are consumers: it has to replace at least as many claims.
        due = max(self._checkpoint_records, len(self._positions))
        if self._positions.claims_since_checkpoint >= due and self._checkpointing is None:
            self._checkpointing = asyncio.create_task(self._checkpoint())

    async def _checkpoint(self) -> None:
        try:
            await self._forget_unregistered()
            for record in self._positions.checkpoint_records(uuid.uuid4().hex):
                await self._log.append(record)
            if self._positions.checkpoint is not None:
                await self._log.trim(self._positions.checkpoint)
        except KafkaClientError as error:
            # The log is longer for it, and one of the next claims tries again.
            log.warning("no checkpoint of %s-%d: %s", TOPIC, self._partition, error)
        finally:
            self._checkpointing = None

    async def _forget_unregistered(self) -> None:
        if self._registered is None:
            return
        # Those of this moment: somebody may register and claim while the registry is being read.
        consumers = self._positions.consumers()
        is_registered = await self._registered()
        self._positions.forget(consumer for consumer in consumers if not is_registered(consumer))

    async def close(self) -> None:
        if self._checkpointing is not None:
            self._checkpointing.cancel()
            await asyncio.gather(self._checkpointing, return_exceptions=True)


class PositionLogs:
    def __init__(self, kafka: Kafka, checkpoint_records: int, registered: AllRegistered) -> None:
        self._logs = [
            PositionLog(kafka, partition, checkpoint_records, registered) for partition in range(PARTITIONS)
        ]

    def of(self, consumer: int) -> PositionLog:
        return self._logs[consumer % PARTITIONS]

    async def close(self) -> None:
        for each in self._logs:
            await each.close()
