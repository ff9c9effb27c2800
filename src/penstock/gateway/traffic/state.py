"""What a gateway knows of traffic, and what keeps it up to date. It begins with the first request."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

from penstock.gateway.errors import ApiFailure
from penstock.gateway.kafka.errors import KafkaUnavailableError
from penstock.gateway.traffic.city import City
from penstock.gateway.traffic.feed import HeatFeed
from penstock.gateway.traffic.following import TopicFollower, from_beginning, offset_at
from penstock.gateway.traffic.metrics import TrafficMetrics
from penstock.gateway.traffic.participants import Participants
from penstock.gateway.traffic.recent import recent_start
from penstock.gateway.traffic.writing import PositionWriter
from penstock.traffic.participation import PARTICIPATION_KEY, WINDOW_S, parse_window, window_ms_of
from penstock.traffic.topics import CONTRIBUTIONS, HEATMAP, MAP

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.requests import HTTPConnection

    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.kafka.reader import LogReader
    from penstock.gateway.settings import GatewaySettings
    from penstock.kafka.records import ReadRecord


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Traffic:
    """Of a running gateway. It follows the topics from when it is made until it is closed."""

    def __init__(self, kafka: Kafka, settings: GatewaySettings, registry: CollectorRegistry) -> None:
        limits = settings.limits
        self.city = City()
        self.feed = HeatFeed(limits.traffic_cells_max, self.city.grid)
        given_s = settings.traffic_participation_s
        self._follows_rule = given_s is None
        self.participants = Participants(WINDOW_S if given_s is None else given_s, limits.traffic_cars_max)
        self.writer = PositionWriter(kafka, self.participants)
        self.metrics = TrafficMetrics(registry, self.feed)
        self._seconds_max = limits.kafka_seconds_max
        self._tasks: dict[TopicFollower, asyncio.Task[None]] = {}
        reader = kafka.reader
        self._map = self._follow(
            TopicFollower(reader, MAP, begin=from_beginning, apply=self._apply_map, clear=self._clear_map)
        )
        self._follow(
            TopicFollower(reader, HEATMAP, begin=recent_start, apply=self.feed.apply, clear=self.feed.clear)
        )
        if self.participants.required or self._follows_rule:
            self._follow(
                TopicFollower(
                    reader,
                    CONTRIBUTIONS,
                    begin=self._begin_contributions,
                    apply=self._apply_contributions,
                    clear=lambda: None,  # that a car has contributed stays true for as long as it counts
                )
            )

    async def map_known(self) -> None:
        await self._caught_up(self._map)
        if self.city.problem is not None:
            raise ApiFailure(503, self.city.problem)

    async def all_known(self) -> None:
        await self.map_known()
        for follower in self._tasks:
            await self._caught_up(follower)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _follow(self, follower: TopicFollower) -> TopicFollower:
        self._tasks[follower] = asyncio.create_task(follower.run())
        return follower

    async def _caught_up(self, follower: TopicFollower) -> None:
        task = self._tasks[follower]
        if task.done():
            task.result()  # only a fault of its own ends it, and whoever asks should hear of it
        try:
            async with asyncio.timeout(self._seconds_max):
                await follower.caught_up.wait()
        except TimeoutError:
            raise KafkaUnavailableError("the brokers have not told yet what is known of traffic") from None

    def _apply_map(self, records: list[ReadRecord]) -> None:
        for record in records:
            if record.key == PARTICIPATION_KEY:
                self._apply_window(record.value)
            else:
                self.city.apply(record.key, record.value)
        self.feed.redraw(self.city.grid)

    def _clear_map(self) -> None:
        self.city.clear()
        self._apply_window(None)
        self.feed.redraw(self.city.grid)

    def _apply_window(self, value: bytes | None) -> None:
        if self._follows_rule:
            self.participants.window_ms = window_ms_of(parse_window(value))

    async def _begin_contributions(self, reader: LogReader, topic: str, partition: int) -> int:
        """Older ones do not count any more."""
        await self._map.caught_up.wait()  # which tells how old they may be
        return await offset_at(reader, topic, partition, clock_ms() - self.participants.window_ms)

    def _apply_contributions(self, records: list[ReadRecord]) -> None:
        now_ms = clock_ms()
        for record in records:
            self.participants.apply(record.key, record.value, now_ms)


class TrafficOnDemand:
    """A gateway that nobody asks about traffic has none of it."""

    def __init__(self, kafka: Kafka, settings: GatewaySettings, registry: CollectorRegistry) -> None:
        self._kafka = kafka
        self._settings = settings
        self._registry = registry
        self._traffic: Traffic | None = None

    def get(self) -> Traffic:
        if self._traffic is None:
            self._traffic = Traffic(self._kafka, self._settings, self._registry)
        return self._traffic

    async def close(self) -> None:
        if self._traffic is not None:
            await self._traffic.close()


def traffic_of(connection: HTTPConnection) -> Traffic:
    return cast("TrafficOnDemand", connection.app.state.traffic).get()
