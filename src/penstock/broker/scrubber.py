"""Scrubbing: closed segments are read again, slowly, every CRC is checked, and followers ask their leaders
whether they have the same (agreement.py).

A round reads all of them once. One begins every `scrub_interval_ms`, at most `scrub_bytes_per_second` are
read, and how far it is only this process knows. Besides, an operator may ask for a round of one topic or of
all: it runs beside the other one, at the same rate.

Reading and checking happen in another thread. What is suspected is confirmed on the event loop, which owns
the logs, and is never served from then on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.agreement import maybe_leader
from penstock.storage import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.broker.agreement import Agreement
    from penstock.broker.metrics import Metrics
    from penstock.broker.partition import Partition
    from penstock.broker.partitions import Partitions
    from penstock.config import NodeConfig
    from penstock.storage.interface import DamagedRange
    from penstock.storage.scrubbing import ScrubPiece

log = logging.getLogger(__name__)

FIRST_ROUND_S: Final = 600.0
"""After the start, which has other things to read."""
NO_BROKER: Final = -1


class Found(NamedTuple):
    topic: str
    partition: int
    damage: DamagedRange
    differs_from: int = NO_BROKER
    """The leader that has something else there; without one, the range is damaged by itself."""


class ScrubRound:
    def __init__(self, partitions: list[Partition]) -> None:
        self.partitions = partitions
        self.bytes_total = sum(partition.log.closed_bytes for partition in partitions)
        self.bytes_done = 0
        self.disagreements: list[Found] = []
        self.ended = asyncio.Event()

    @property
    def bytes_left(self) -> int:
        """As far as was known at its begin: segments come and go meanwhile."""
        return 0 if self.ended.is_set() else max(1, self.bytes_total - self.bytes_done)

    def found(self) -> list[Found]:
        """All that is known to be damaged in what it is about, and what it found to differ from leaders."""
        damaged = [
            Found(each.topic, each.index, damage) for each in self.partitions for damage in each.log.damage()
        ]
        return damaged + self.disagreements


class Scrubber:
    def __init__(
        self, config: NodeConfig, partitions: Partitions, metrics: Metrics, agreement: Agreement
    ) -> None:
        self._rate = config.scrub_bytes_per_second
        self._interval_s = config.scrub_interval_ms / 1000
        self._partitions = partitions
        self._metrics = metrics
        self._agreement = agreement
        self._asked: dict[str | None, tuple[ScrubRound, asyncio.Task[None]]] = {}
        self.current: ScrubRound | None = None
        """The round of the node's own that is under way."""

    async def run(self) -> None:
        """A round now and then, until cancelled."""
        await asyncio.sleep(min(FIRST_ROUND_S, self._interval_s))
        while True:
            began_s = asyncio.get_running_loop().time()
            self.current = ScrubRound(list(self._partitions))
            try:
                await self._scrub(self.current)
            except Exception:
                log.exception("scrubbing")
            finally:
                self.current = None
            passed_s = asyncio.get_running_loop().time() - began_s
            await asyncio.sleep(max(1.0, self._interval_s - passed_s))

    async def stop(self) -> None:
        tasks = [task for _, task in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, topic: str | None, wait_s: float) -> ScrubRound:
        """The round over a topic, or all, that is under way, or else a new one; after a while, or at its end.

        Who was told of its end and asks once more gets a new one.
        """
        if topic not in self._asked:
            chosen = [each for each in self._partitions if topic in (None, each.topic)]
            begun = ScrubRound(chosen)
            self._asked[topic] = begun, asyncio.get_running_loop().create_task(self._scrub(begun))
        current, _ = self._asked[topic]
        try:
            async with asyncio.timeout(wait_s):
                await current.ended.wait()
        except TimeoutError:
            return current
        if topic in self._asked and self._asked[topic][0] is current:
            del self._asked[topic]
        return current

    async def _scrub(self, current: ScrubRound) -> None:
        now_s: Callable[[], float] = asyncio.get_running_loop().time
        began_s = now_s()
        try:
            for partition in current.partitions:
                try:
                    for piece in _pieces(partition):
                        await self._scrub_piece(current, partition, piece)
                        current.bytes_done += piece.size
                        await asyncio.sleep(max(0.0, current.bytes_done / self._rate - (now_s() - began_s)))
                except (StorageError, OSError) as error:  # the others are looked at all the same
                    if not partition.log.closed:
                        log.error("scrubbing %s-%d: %s", partition.topic, partition.index, error)
        finally:
            current.ended.set()

    async def _scrub_piece(self, current: ScrubRound, partition: Partition, piece: ScrubPiece) -> None:
        leader = maybe_leader(partition, piece)
        try:
            digest = await asyncio.get_running_loop().run_in_executor(None, piece.maybe_digest)
        except FileNotFoundError:
            return  # retention or compaction took the segment meanwhile
        self._metrics.scrubbed_bytes += piece.size
        if partition.log.closed:
            return
        if digest is not None:
            if leader is not None:
                found = await self._agreement.maybe_disagreement(partition, piece, digest, leader)
                if found is not None:
                    current.disagreements.append(Found(partition.topic, partition.index, found, leader.id))
            return
        for damage in partition.log.confirm(piece):
            self._metrics.scrub_damage_found += 1
            log.error(
                "%s-%d has rotted: %s is damaged at byte %d (%s), %d bytes from offset %d on",
                partition.topic, partition.index, damage.file, damage.position, damage.reason, damage.size,
                damage.first_offset,
            )  # fmt: skip


def _pieces(partition: Partition) -> Iterator[ScrubPiece]:
    """Until the log is closed, because its topic was deleted or the node stops."""
    for piece in partition.log.scrub_pieces():
        if partition.log.closed:
            return
        yield piece
