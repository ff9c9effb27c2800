"""Finds leaders for partitions that no in-sync replica can lead: metadata/recovery.py says when, and who.

What a replica has is asked of its broker, by ListOffsets as Kafka's debugging consumer sends it: a follower
answers that, too, with the end of its log and the epoch of it. The leader epoch in the question is that in
which nobody leads, so that a broker answers only when it has learned that, and its log stands still.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.metadata.recovery import Leaderless, ReplicaEnd, leaderless, recover, replicas_to_ask
from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.replication.divergence import LogEnd
from penstock.types import ApiError, ErrorCode, TopicPartition
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.records import MetadataRecord
    from penstock.peers.peers import Peers
    from penstock.wire.shapes import Body

log = logging.getLogger(__name__)

LIST_OFFSETS: Final = (2, 7)
DEBUGGING_REPLICA_ID: Final = -2
LATEST: Final = -1
CHECK_S: Final = 0.2
ANSWER_S_MAX: Final = 2.0

Change = Callable[[Callable[["MetadataImage"], tuple[Sequence["MetadataRecord"], None]]], Awaitable[None]]
AskedEnds = dict[TopicPartition, dict[int, ReplicaEnd]]


class Recovery:
    def __init__(
        self,
        peers: Peers,
        image: Callable[[], MetadataImage],
        change: Change,
        *,
        is_unclean_allowed: Callable[[str], bool],
        patience_s: float,
    ) -> None:
        """`patience_s`: for so long in-sync replicas are waited for where others may be elected, too."""
        self._peers = peers
        self._image = image
        self._change = change
        self._is_unclean_allowed = is_unclean_allowed
        self._patience_s = patience_s
        self._patient_with: dict[TopicPartition, float] = {}
        """Partitions without a leader that others than in-sync replicas may lead, and since when."""
        self._was_patient_with: dict[TopicPartition, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """With the active controller; nobody else decides anything."""
        self._patient_with = {}
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        seen: MetadataImage | None = None
        while True:
            await asyncio.sleep(CHECK_S)
            image = self._image()
            if image is seen and not self._patient_with:
                continue
            seen = image
            self._was_patient_with, self._patient_with = self._patient_with, {}
            try:
                if waiting := leaderless(image, self._has_consent):
                    await self._recover(image, waiting)
                    seen = None  # those that could not be recovered are looked at again
            except ApiError as error:
                log.info("partitions without a leader: %s", error)
            except Exception:
                log.exception("partitions without a leader")

    def _has_consent(self, where: TopicPartition) -> bool:
        """Of the topic itself, after its in-sync replicas had time to come back."""
        if not self._is_unclean_allowed(where.topic):
            return False
        now_s = asyncio.get_running_loop().time()
        self._patient_with[where] = self._was_patient_with.get(where, now_s)
        return now_s - self._patient_with[where] >= self._patience_s

    async def _recover(self, image: MetadataImage, waiting: Sequence[Leaderless]) -> None:
        ends = await self.ask_ends(image, waiting)
        await self._change(lambda now: (recover(now, waiting, ends), None))

    async def ask_ends(self, image: MetadataImage, waiting: Sequence[Leaderless]) -> AskedEnds:
        """What the live replicas have, as far as they answer."""
        asked = replicas_to_ask(image, waiting)
        answers = await asyncio.gather(*(self._ask(broker_id, each) for broker_id, each in asked.items()))
        epochs = {each.where: each.image.leader_epoch for each in waiting}
        ends: AskedEnds = {each.where: {} for each in waiting}
        for broker_id, told in zip(asked, answers, strict=True):
            broker_epoch = image.brokers[broker_id].epoch
            for where in ends.keys() & told.keys():
                ends[where][broker_id] = ReplicaEnd(broker_epoch, epochs[where], told[where])
        return ends

    async def _ask(self, broker_id: int, waiting: Sequence[Leaderless]) -> dict[TopicPartition, LogEnd]:
        try:
            answer = await self._peers.ask(
                broker_id, Lane.CONTROL, *LIST_OFFSETS, _request(waiting), timeout_s=ANSWER_S_MAX
            )
        except (PeerError, DecodeError) as error:
            log.info("what replicas on broker %d have: %s", broker_id, error)
            return {}
        return {
            TopicPartition(topic.name, each.partition_index): LogEnd(each.leader_epoch, each.offset)
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code is ErrorCode.none
        }


def _request(waiting: Sequence[Leaderless]) -> Body:
    topics: dict[str, list[dict[str, Any]]] = {}
    for each in waiting:
        topics.setdefault(each.where.topic, []).append(
            {
                "partition_index": each.where.partition,
                "current_leader_epoch": each.image.leader_epoch,
                "timestamp": LATEST,
            }
        )
    return {
        "replica_id": DEBUGGING_REPLICA_ID,
        "isolation_level": 0,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
