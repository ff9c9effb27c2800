"""Carries the proposals of the partitions that this broker leads to the controller, one request at a time.

That the controller agreed is not heard from its answer but from the metadata, like everything else. One whose
answer did not come is sent again (see replication/leader.py for why it must not be given up).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.metadata.partition_changes import IsrChange
from penstock.types import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from penstock.broker.controller_channel import ControllerChannel
    from penstock.broker.partitions import Partitions
    from penstock.controller.controller import Controller
    from penstock.replication.leader import PartitionLeader, Proposal

log = logging.getLogger(__name__)

CHECK_S: Final = 0.25
RETRY_S: Final = 0.2


class InSyncSets:
    def __init__(
        self,
        partitions: Partitions,
        controller: Controller,
        channel: ControllerChannel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._controller = controller
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._monotonic_ms = monotonic_ms
        self._open: dict[tuple[UUID, int], tuple[PartitionLeader, Proposal]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                self._collect()
                if self._open:
                    await self._propose()
                    continue
            except ApiError as error:
                log.info("in-sync sets are not changed: %s", error)
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("in-sync sets")
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(CHECK_S)

    def _collect(self) -> None:
        """The proposals that stand; new ones where the present set is not right."""
        self._open = {}
        now_ms = self._monotonic_ms()
        for partition in self._partitions:
            leader = partition.leader
            if leader is None or len(partition.image.replicas) == 1:
                continue
            partition.count_replicas()
            proposal = leader.propose_again() or leader.maybe_propose(
                partial(self._joinable_epoch, partition.image.offline), now_ms
            )
            if proposal is not None:
                self._open[(partition.topic_id, partition.index)] = (leader, proposal)

    def _joinable_epoch(self, offline: tuple[int, ...], broker_id: int) -> int | None:
        broker = self._controller.image.brokers.get(broker_id)
        if broker is None or not broker.electable or broker_id in offline:
            return None
        return broker.epoch

    async def _propose(self) -> None:
        proposed = self._open
        changes = [
            IsrChange(topic_id, index, proposal.leader_epoch, proposal.partition_epoch, proposal.isr)
            for (topic_id, index), (_, proposal) in proposed.items()
        ]
        outcomes = await self._channel.alter_partitions(self._node_id, self._broker_epoch(), changes)
        for outcome in outcomes:
            leader, proposal = proposed[(outcome.topic_id, outcome.partition)]
            if outcome.error is not None and leader.refused(proposal, outcome.error.code):
                log.info("the controller refuses %s: %s", proposal, outcome.error)
        await asyncio.sleep(CHECK_S / 5)
