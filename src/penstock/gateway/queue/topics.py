"""Which topic a name stands for, and its partitions, without asking the cluster for each message."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.admin import INTERNAL_PREFIX
from penstock.gateway.kafka.errors import TopicExistsError, UnknownTopicError
from penstock.gateway.queue.fresh import seen
from penstock.metadata.topic_names import problem_with

if TYPE_CHECKING:
    from penstock.gateway.kafka.admin import TopicIdentity
    from penstock.gateway.kafka.clients import Kafka

FRESH_S: Final = 1.0
"""An answer younger than this is good; an older one is, too, but the cluster is asked again meanwhile."""
STALE_S: Final = 10.0
"""Older than this, it is waited for."""
CREATION_S_MAX: Final = 10.0


class Topics:
    def __init__(self, kafka: Kafka, topics_max: int) -> None:
        self._kafka = kafka
        self._topics_max = topics_max
        self._known: dict[str, tuple[TopicIdentity, float]] = {}
        self._asking: dict[str, asyncio.Task[TopicIdentity]] = {}

    async def get(self, topic: str) -> TopicIdentity:
        """UnknownTopicError."""
        found, asked_at = self._known.get(topic, (None, 0.0))
        age_s = asyncio.get_running_loop().time() - asked_at
        if found is not None and age_s < FRESH_S:
            return found
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.create_task(self._ask(topic))
            asking.add_done_callback(seen)
        if found is not None and age_s < STALE_S:
            return found
        return await asyncio.shield(asking)

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)
        self._asking.pop(topic, None)  # its answer may be older than the reason to forget
        self._kafka.reader.forget(topic)

    async def create(self, topic: str) -> None:
        """TopicExistsError."""
        check_usable(topic)
        await self._kafka.admin.create_topic(topic)
        self.forget(topic)
        # Whoever has created a topic can use it at once, also where several brokers have to hear of it.
        await self._kafka.reader.partitions(topic, wait_s=CREATION_S_MAX)

    async def ensure(self, topic: str, *, may_create: bool = True) -> None:
        """Create it unless it is there; 403 for who may not."""
        check_usable(topic)
        self.forget(topic)  # it may have been deleted since
        try:
            await self.get(topic)
        except UnknownTopicError:
            if not may_create:
                raise ApiFailure(
                    403, f"there is no topic {topic!r}, and creating it takes a token for write"
                ) from None
            try:
                await self.create(topic)
            except TopicExistsError:
                await self._kafka.reader.partitions(topic, wait_s=CREATION_S_MAX)

    async def _ask(self, topic: str) -> TopicIdentity:
        try:
            identity = await self._kafka.admin.identify(topic)
            self._learned(topic, identity)
        except UnknownTopicError:
            self._learned(topic, None)
            raise
        finally:
            if self._is_newest(topic):
                del self._asking[topic]
        return identity

    def _is_newest(self, topic: str) -> bool:
        """Whether the task that runs is the one whose answer counts."""
        return self._asking.get(topic) is asyncio.current_task()

    def _learned(self, topic: str, identity: TopicIdentity | None) -> None:
        if not self._is_newest(topic):
            return
        self._known.pop(topic, None)
        if identity is None:
            return
        if len(self._known) >= self._topics_max:
            del self._known[next(iter(self._known))]
        self._known[topic] = identity, asyncio.get_running_loop().time()


def check_usable(topic: str) -> None:
    """By Kafka's rules for names; two underscores at the beginning are for the cluster and the gateway."""
    problem = problem_with(topic)
    if problem is None and topic.startswith(INTERNAL_PREFIX):
        problem = f"names that begin with {INTERNAL_PREFIX} are reserved"
    if problem is not None:
        raise ApiFailure(400, f"not a name for a topic: {problem}")
