"""Topics that nobody subscribes to any more: deleted when their grace time is over, with their offsets.

That is for topics with `retention=consumed`. What publishers keep of their numbers are offsets in the topic,
and go with it.

The leader of a topic's partition 0 decides, and the controller carries it out. Since when there has been no
subscription is a config of the topic, `retention.consumed.unread.since.ms`: restarts and elections begin no
new grace time. A leader that takes over still looks twice before it goes on, whatever the clocks say.

No subscription may begin in the moment in which the topic goes: whoever was told that it has one would miss
everything that is published to a later topic of that name. So the topic is *closed* first, by 0 as the value
of that config. From when a coordinator sees this in its metadata it takes no new positions in the topic, and
clients come again. Then all coordinators are asked once more, and each answers only if it sees the topic
closed. Its answer has everything that it took before, since it confirms itself by a write behind that. A
coordinator that comes later was elected by a record behind the closing one, so it sees the topic closed from
its first moment. If all say that there is no position, there will be none, and the topic is deleted, by its
id. If there is one, the topic is open again; so it is when its policy has changed meanwhile. A leader that
dies in between leaves a closed topic, which the next one goes on with within a second.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.broker.subscription_positions import PositionsUnknownError, all_positions
from penstock.metadata.configs import CLOSED, SUBSCRIBED, UNREAD_SINCE
from penstock.metadata.internal_topics import is_internal
from penstock.types import ApiError

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from penstock.broker.broker import Broker
    from penstock.metadata.configs import TopicConfig

log = logging.getLogger(__name__)

CLOSED_CHECK_S: Final = 1.0
"""Between two looks for topics that a leader closed that is gone: nobody can subscribe to them meanwhile."""


class UnreadTopics:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._found_unread: set[UUID] = set()
        """In the last round, of topics that were led here."""

    async def run(self) -> None:
        round_s = self._broker.config.retention_check_ms / 1000
        loop = asyncio.get_running_loop()
        round_at = loop.time() + round_s
        while True:
            await asyncio.sleep(min(round_s, CLOSED_CHECK_S))
            try:
                if loop.time() >= round_at:
                    round_at = loop.time() + round_s
                    await self.round()
                elif closed := {each for each in self._led() if self._config(each).is_closed}:
                    await self._delete(closed)
            except (ApiError, PositionsUnknownError) as error:
                log.info("topics without a subscription: none is deleted for now, %s", error)
            except Exception:  # whatever it was, the next round begins with nothing of it
                log.exception("topics without a subscription")

    async def round(self) -> None:
        """Raises ApiError and PositionsUnknownError."""
        led = self._led()
        before, self._found_unread = self._found_unread, set()
        if not led:
            return
        positions = await all_positions(self._broker, led)
        over = set()
        for topic in led:
            if topic in positions:
                if self._config(topic).retention_consumed_unread_since_ms != SUBSCRIBED:
                    await self._note(topic, SUBSCRIBED)
            elif await self._is_grace_over(topic, before):
                over.add(topic)
        if over:
            await self._delete(over)

    def _led(self) -> set[str]:
        return {
            partition.topic
            for partition in self._broker.partitions
            if partition.index == 0
            and partition.leader is not None
            and not is_internal(partition.topic)
            and partition.topic in self._broker.controller.image.topics
            and self._config(partition.topic).is_consumed
        }

    def _config(self, topic: str) -> TopicConfig:
        return self._broker.controller.topic_config(topic)

    async def _is_grace_over(self, topic: str, before: Collection[UUID]) -> bool:
        known = self._broker.controller.image.topics.get(topic)
        if known is None:
            return False
        self._found_unread.add(known.topic_id)
        config, now_ms = self._config(topic), self._broker.now_ms()
        since_ms = config.retention_consumed_unread_since_ms
        if since_ms == CLOSED:
            return True
        if since_ms == SUBSCRIBED or since_ms > now_ms:
            await self._note(topic, max(1, now_ms))
            return False
        return known.topic_id in before and now_ms - since_ms >= config.retention_consumed_grace_ms

    async def _delete(self, topics: Collection[str]) -> None:
        """Those that nobody subscribes to when they are closed."""
        image = self._broker.controller.image
        ids = {topic: image.topics[topic].topic_id for topic in topics if topic in image.topics}
        for topic in ids:
            if not self._config(topic).is_closed:
                await self._note(topic, CLOSED)
        positions = await all_positions(self._broker, ids, closed=True)
        for topic, topic_id in ids.items():
            if topic in positions:
                await self._note(topic, SUBSCRIBED)
            elif self._config(topic).is_closed:
                await self._broker.channel.delete_topic(topic_id)
                grace_ms = self._config(topic).retention_consumed_grace_ms
                log.info("retention: %s deleted, without a subscription for %d ms", topic, grace_ms)

    async def _note(self, topic: str, since_ms: int) -> None:
        await self._broker.channel.set_topic_config(topic, UNREAD_SINCE, str(since_ms))
