"""From committed batches to images, and from images to whoever carries them out on this node.

The image changes as soon as a batch is committed: decisions are made on it. The broker's part hears of each
change after that, one change after the other and each to its end, in a task of its own: creating folders
takes time, and must not hold up the quorum.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from penstock.metadata.events import events_of
from penstock.metadata.image import (
    ConfigResource,
    ImageDraft,
    MetadataDelta,
    MetadataImage,
    ResourceType,
)
from penstock.metadata.records import MetadataRecordError
from penstock.metadata.timeline import Timeline
from penstock.storage.errors import StorageError

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.controller.metadata_log import MetadataLog
    from penstock.metadata.events import ClusterEvent

log = logging.getLogger(__name__)

EVENTS_KEPT: Final = 5_000

Subscriber = Callable[[MetadataDelta], Awaitable[None] | None]


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """What is different, for a node that was away for so long that nobody has the single steps any more."""
    kept = before.topic_names.keys() & after.topic_names.keys()
    resources = before.overrides.keys() | after.overrides.keys()
    changed_resources = {
        resource for resource in resources if before.overrides.get(resource) != after.overrides.get(resource)
    }
    if any(resource.resource_type == ResourceType.BROKER for resource in changed_resources):
        changed_resources |= {ConfigResource(ResourceType.TOPIC, name) for name in after.topics}
    return MetadataDelta(
        {name: topic for name, topic in after.topics.items() if topic.topic_id not in before.topic_names},
        {name: topic for name, topic in before.topics.items() if topic.topic_id not in after.topic_names},
        {
            name: topic
            for name, topic in after.topics.items()
            if topic.topic_id in kept and topic.partitions != before.topics[name].partitions
        },
        frozenset(changed_resources),
        frozenset(
            broker_id
            for broker_id in before.brokers.keys() | after.brokers.keys()
            if before.brokers.get(broker_id) != after.brokers.get(broker_id)
        ),
    )


class Published:
    """An event of the cluster log, with where and when it was committed."""

    __slots__ = ("event", "offset", "timestamp_ms")

    def __init__(self, offset: int, timestamp_ms: int, event: ClusterEvent) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.event = event


class MetadataPublisher:
    def __init__(self, metadata_log: MetadataLog, log_level: int = logging.INFO) -> None:
        self.image = MetadataImage()
        self.applied_offset = 0
        """Everything before it is in the image."""
        self.published_offset = 0
        """Everything before it is carried out on this node."""
        self.removed: set[UUID] = set()
        """Topics whose end was read before `begin`, in the log or by a snapshot that came after it."""
        self.events: deque[Published] = deque(maxlen=EVENTS_KEPT)
        self._timeline = Timeline()
        self._log = metadata_log
        self._log_level = log_level
        self._subscribers: list[Subscriber] = []
        self._queue: asyncio.Queue[tuple[int, MetadataDelta]] = asyncio.Queue()
        self._is_publishing = False
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # for what is carried out
        self._failures: dict[int, StorageError] = {}

    def restore(self) -> None:
        """Go on from the log's snapshot. Whoever subscribed hears of the difference as of one change."""
        snapshot = self._log.snapshot
        assert snapshot is not None
        if snapshot.end.end_offset <= self.applied_offset:
            return
        draft = ImageDraft(MetadataImage())
        for record in snapshot.records:
            draft.apply(record)
        image, _ = draft.finish()
        delta = difference(self.image, image)
        self.image = image
        self.applied_offset = snapshot.end.end_offset
        self._changed(self.applied_offset, delta)

    def _changed(self, end_offset: int, delta: MetadataDelta) -> None:
        if self._is_publishing:
            self._queue.put_nowait((end_offset, delta))
        else:
            self.removed.update(topic.topic_id for topic in delta.deleted.values())

    def subscribe(self, subscriber: Subscriber) -> None:
        """Called with each change, after `begin`; it may return an awaitable, which is waited for."""
        self._subscribers.append(subscriber)

    def committed(self, high_watermark: int) -> None:
        """Apply what is committed now."""
        for batch in self._log.batches(self.applied_offset, high_watermark):
            draft = ImageDraft(self.image)
            try:
                for record in batch.records:
                    draft.apply(record)
            except MetadataRecordError as error:
                raise StorageError(
                    f"the metadata log is damaged or too new (batch at offset {batch.base_offset}): {error}"
                ) from error
            for told in events_of(self.image, batch.records, quorum_epoch=batch.epoch):
                event = self._timeline.told(told, batch.timestamp_ms)
                self.events.append(Published(batch.base_offset, batch.timestamp_ms, event))
                if self._is_publishing:  # else it happened before this process was there
                    cause = f" ({event.cause})" if event.cause else ""
                    log.log(self._log_level, "%s%s", event.text, cause)
            self.image, delta = draft.finish()
            self._changed(batch.base_offset + len(batch.records), delta)
        self.applied_offset = max(self.applied_offset, high_watermark)

    async def begin(self, load: Callable[[MetadataImage], Awaitable[None]]) -> None:
        """Let `load` carry out the image of this moment; after it subscribers hear of each change."""
        assert not self._is_publishing
        self._is_publishing = True
        offset = self.applied_offset
        await load(self.image)
        self.removed.clear()
        self.published_offset = offset
        self._task = asyncio.get_running_loop().create_task(self._publish())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for _, waiter in self._waiting:
            waiter.cancel()

    async def carried_out(self, end_offset: int) -> None:
        """Wait until all before `end_offset` is carried out here, if this node carries out anything.

        StorageError: it stands, and could not be carried out, such as creating a folder on a full disk; the
        next start tries again.
        """
        await self._until_published(end_offset)
        failure = self._failures.pop(end_offset, None)
        if failure is not None:
            raise failure

    async def settled(self) -> None:
        """Wait until all that the image shows at this moment is carried out here, or could not be."""
        await self._until_published(self.applied_offset)

    async def _until_published(self, end_offset: int) -> None:
        if self._task is not None and self.published_offset < end_offset:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((end_offset, waiter))
            await waiter

    async def _publish(self) -> None:
        while True:
            end_offset, delta = await self._queue.get()
            await self._tell(end_offset, delta)
            self.published_offset = end_offset
            still_waiting = []
            for wanted, waiter in self._waiting:
                if wanted > end_offset:
                    still_waiting.append((wanted, waiter))
                elif not waiter.done():
                    waiter.set_result(None)
            self._waiting = still_waiting

    async def _tell(self, end_offset: int, delta: MetadataDelta) -> None:
        for subscriber in self._subscribers:
            try:
                under_way = subscriber(delta)
                if under_way is not None:
                    await under_way
            except StorageError as error:
                log.error("a change of the metadata could not be carried out: %s", error)
                self._failures.setdefault(end_offset, error)
                if len(self._failures) > EVENTS_KEPT:
                    self._failures.clear()
            except Exception:
                log.exception("a change of the metadata could not be carried out")
