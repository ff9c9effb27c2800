"""The controller of a cluster of one node: decisions, one after the other, on a metadata log of its own.

A change is decided on the image of the moment, written as one batch, flushed, and only then applied and
told to the subscribers; the next change is decided after that. So of two requests for one name exactly one
wins, nobody sees a change that a crash could take back, and nobody sees half a batch.

A change that was begun is finished even if whoever asked goes away: the batch may be on disk already.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from penstock.controller.metadata_log import METADATA_LOG, MetadataLog
from penstock.controller.producer_ids import ProducerIds
from penstock.metadata import alterations, topics
from penstock.metadata.assignments import NewTopic, TopicDefaults
from penstock.metadata.broker_configs import REPLICATION_FACTOR_DEFAULT_MAX
from penstock.metadata.config_layers import ConfigLayers
from penstock.metadata.configs import TOPIC_CONFIGS, check_node_defaults
from penstock.metadata.image import ImageDraft, MetadataDelta, MetadataImage
from penstock.metadata.records import MetadataRecord, ProducerIdsRecord, RegisterBrokerRecord
from penstock.metadata.registration import register_alone
from penstock.storage.errors import StorageError
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.config import NodeConfig
    from penstock.metadata.alterations import ConfigOutcome, ResourceAlteration
    from penstock.metadata.assignments import NewPartitions
    from penstock.metadata.configs import TopicConfig
    from penstock.metadata.image import TopicImage
    from penstock.metadata.topics import TopicOutcome, TopicReference
    from penstock.storage.interface import Storage

Outcome = TypeVar("Outcome")
Subscriber = Callable[[MetadataDelta], Awaitable[None] | None]

logger = logging.getLogger(__name__)


class LocalController:
    """`image` is the state of the moment; each committed batch puts a new one in its place."""

    def __init__(
        self,
        storage: Storage,
        config: NodeConfig,
        *,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        check_node_defaults(config.topic_defaults)
        self.image = MetadataImage()
        self.producer_ids = ProducerIds(self.allocate_producer_ids)
        flush = {} if config.flush == TOPIC_CONFIGS["flush"].default else {"flush": config.flush}
        self.layers = ConfigLayers(config.node_id, {**flush, **config.topic_defaults})
        self.defaults = TopicDefaults(
            int(config.topic_defaults.get("num.partitions", "1")),
            int(config.topic_defaults.get("default.replication.factor", REPLICATION_FACTOR_DEFAULT_MAX)),
        )
        self._storage = storage
        self._config = config
        self._now_ms = now_ms
        self._new_uuid = new_uuid
        self._log: MetadataLog | None = None
        self._one_at_a_time = asyncio.Lock()
        self._changes: set[asyncio.Task[object]] = set()
        self._subscribers: list[Subscriber] = []

    async def start(self, *, host: str | None = None, port: int | None = None) -> None:
        """Replay the log and register this node under the address that clients are to be told.

        Subscribers hear of what is committed from here on; what was there before is in `image`.
        """
        logs = [name for name, _ in self._storage.logs()]
        if logs and METADATA_LOG not in logs:
            raise StorageError(
                f"{METADATA_LOG} is missing, and without it nobody knows what {logs[0]} and others belong to"
            )
        self._log = MetadataLog(self._storage, now_ms=self._now_ms())
        self.image = self._log.replay()
        config = self._config
        registration = RegisterBrokerRecord(
            config.node_id,
            self._log.end_offset,
            self._new_uuid(),
            self._storage.storage_id,
            host or config.advertised_host or config.host,
            port or config.advertised_port or config.port,
            config.rack,
        )
        await self._change(lambda image: (register_alone(image, registration), None))

    async def stop(self) -> None:
        """Finish the change under way, refuse further ones, close the log."""
        while self._changes:
            await asyncio.wait(self._changes)
        if self._log is not None:
            self._log.close()
            self._log = None

    def subscribe(self, callback: Subscriber) -> None:
        """`callback` is called on the event loop after each committed batch and must not raise.

        If it returns an awaitable, the change is complete when that is done: a topic that was answered as
        created can be written to.
        """
        self._subscribers.append(callback)

    def topic_config(self, name: str) -> TopicConfig:
        """The values in force for a topic."""
        return self.layers.topic(self.image, name)

    async def create_topics(
        self, new_topics: Sequence[NewTopic], *, validate_only: bool = False, allow_internal: bool = False
    ) -> list[TopicOutcome]:
        topic_ids = [self._new_uuid() for _ in new_topics]
        return await self._change(
            lambda image: topics.create_topics(
                image,
                new_topics,
                topic_ids=topic_ids,
                defaults=self.defaults,
                allow_internal=allow_internal,
            ),
            validate_only=validate_only,
        )

    async def ensure_internal_topic(
        self, name: str, partitions: int, configs: Mapping[str, str]
    ) -> TopicImage:
        """The internal topic `name`, created now if it is not there."""
        if name not in self.image.topics:
            new_topic = NewTopic(name, partitions, configs=tuple(configs.items()))
            (outcome,) = await self.create_topics([new_topic], allow_internal=True)
            if outcome.error is not None and outcome.error.code is not ErrorCode.topic_already_exists:
                raise outcome.error
        return self.image.topics[name]

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[TopicOutcome]:
        return await self._change(
            lambda image: topics.create_partitions(image, requests), validate_only=validate_only
        )

    async def delete_topics(self, references: Sequence[TopicReference]) -> list[TopicOutcome]:
        return await self._change(lambda image: topics.delete_topics(image, references))

    async def alter_configs(
        self, requests: Sequence[ResourceAlteration], *, validate_only: bool = False
    ) -> list[ConfigOutcome]:
        """AlterConfigs: what is not named goes back to its default."""
        return await self._change(
            lambda image: alterations.replace_configs(image, requests), validate_only=validate_only
        )

    async def incremental_alter_configs(
        self, requests: Sequence[ResourceAlteration], *, validate_only: bool = False
    ) -> list[ConfigOutcome]:
        return await self._change(
            lambda image: alterations.alter_configs(image, requests), validate_only=validate_only
        )

    async def allocate_producer_ids(self, count: int) -> range:
        """A block of ids that nobody was given before; durable when it returns."""

        def decide(image: MetadataImage) -> tuple[list[MetadataRecord], range]:
            block = range(image.next_producer_id, image.next_producer_id + count)
            return [ProducerIdsRecord(self._config.node_id, block.stop)], block

        return await self._change(decide)

    async def _change(
        self,
        decide: Callable[[MetadataImage], tuple[Sequence[MetadataRecord], Outcome]],
        *,
        validate_only: bool = False,
    ) -> Outcome:
        if validate_only:
            return decide(self.image)[1]
        task = asyncio.get_running_loop().create_task(self._decide_and_commit(decide))
        self._changes.add(task)
        task.add_done_callback(self._change_done)
        return await asyncio.shield(task)

    def _change_done(self, task: asyncio.Task[object]) -> None:
        self._changes.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # whoever asked may be gone
            logger.error("a change of the metadata failed: %s", error)

    async def _decide_and_commit(
        self, decide: Callable[[MetadataImage], tuple[Sequence[MetadataRecord], Outcome]]
    ) -> Outcome:
        async with self._one_at_a_time:
            if self._log is None:
                raise ApiError(ErrorCode.broker_not_available, "the controller is not running")
            records, outcome = decide(self.image)
            if records:
                draft = ImageDraft(self.image)
                for record in records:
                    draft.apply(record)  # before it is written: a batch that cannot be applied never is
                try:
                    await self._log.append(records, now_ms=self._now_ms())
                except StorageError as error:
                    raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error
                self.image, delta = draft.finish()
                await self._tell(delta)
            return outcome

    async def _tell(self, delta: MetadataDelta) -> None:
        failure: StorageError | None = None
        for subscriber in self._subscribers:
            try:
                under_way = subscriber(delta)
                if under_way is not None:
                    await under_way
            except StorageError as error:
                failure = failure or error
        if failure is not None:
            # The change stands. What the node could not carry out, such as creating a folder, it tries
            # again at its next start.
            raise ApiError(ErrorCode.kafka_storage_error, str(failure)) from failure
