"""What a gateway knows of Flights jobs, and what keeps it up to date. It begins with the first request."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from penstock.flights.topics import JOBS, REQUESTS
from penstock.gateway.flights.admission import Bounds
from penstock.gateway.flights.heartbeats import Heartbeats, clock_ms
from penstock.gateway.flights.jobs_view import REQUESTS_MS, JobsView
from penstock.gateway.flights.metrics import FlightsMetrics
from penstock.gateway.flights.room import BodyRoom
from penstock.gateway.flights.uploading import Uploader
from penstock.gateway.flights.uploads import Uploads
from penstock.gateway.flights.writing import FlightsWriter
from penstock.gateway.kafka.errors import KafkaUnavailableError, UnknownTopicError
from penstock.gateway.traffic.following import TopicFollower, from_beginning, offset_at

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.requests import HTTPConnection

    from penstock.flights.jobs import Job
    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.kafka.reader import LogReader
    from penstock.gateway.settings import GatewaySettings
    from penstock.kafka.records import ReadRecord

FETCH_BYTES: Final = 256 * 1024


class Flights:
    """Of a running gateway. It follows the topics from when it is made until it is closed."""

    def __init__(
        self,
        kafka: Kafka,
        settings: GatewaySettings,
        registry: CollectorRegistry,
        heartbeats: Heartbeats,
    ) -> None:
        limits = settings.limits
        self.view = JobsView(limits.flights_jobs_max)
        self.uploads = Uploads()
        self.heartbeats = heartbeats
        self.writer = FlightsWriter(kafka)
        self.metrics = FlightsMetrics(registry, self.uploads)
        self.bounds = Bounds(
            limits.flights_job_behind_bytes_max, limits.flights_behind_bytes_max, limits.flights_jobs_max
        )
        room = BodyRoom(limits.flights_bodies_bytes_max)
        self.uploader = Uploader(
            self.view, self.uploads, heartbeats, self.writer, self.metrics, self.bounds, room
        )
        self._reader = kafka.reader
        self._seconds_max = limits.kafka_seconds_max
        self._changed = asyncio.Event()
        self._requests_seen = -1
        self._looking = asyncio.Lock()
        self._followers = [
            TopicFollower(
                kafka.reader, JOBS, begin=from_beginning, apply=self._apply_jobs, clear=self._clear_jobs
            ),
            TopicFollower(
                kafka.reader,
                REQUESTS,
                begin=begin_requests,
                apply=self._apply_requests,
                clear=self._clear_requests,
            ),
        ]
        self._tasks = [asyncio.create_task(follower.run()) for follower in self._followers]

    async def known(self) -> None:
        """Until all is known that was there when this gateway began to look."""
        for task in self._tasks:
            if task.done():
                task.result()  # only a fault of its own ends it, and whoever asks should hear of it
        if all(follower.caught_up.is_set() for follower in self._followers):
            return
        try:
            async with asyncio.timeout(self._seconds_max):
                for follower in self._followers:
                    await follower.caught_up.wait()
        except TimeoutError:
            raise KafkaUnavailableError("the brokers have not told yet which jobs there are") from None

    async def find(self, job: str) -> Job | None:
        """What is known of a job. One that another gateway was just asked for may be on the log already."""
        await self.known()
        known = self.view.get(job)
        if known is None:
            async with self._looking:
                await self._look_again()
            known = self.view.get(job)
        return known

    def deleted(self, job: str) -> None:
        """Somebody asked for it, and the request is on the log."""
        self.view.deleted(job)
        self.uploads.forget(job)
        self._wake()

    async def change(self) -> None:
        """Until something is told of any job."""
        await self._changed.wait()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look_again(self) -> None:
        """Requests that have come since the last that was seen; to see one twice is no harm."""
        with suppress(UnknownTopicError):
            offsets = await self._reader.offsets(REQUESTS, 0)
            offset = max(self._requests_seen + 1, offsets.start)
            while offset < offsets.end:
                fetched = await self._reader.fetch(REQUESTS, 0, offset, max_bytes=FETCH_BYTES, wait_ms=100)
                if fetched.next_offset == offset:
                    return
                self._apply_requests(fetched.records)
                offset = fetched.next_offset
            self._requests_seen = max(self._requests_seen, offset - 1)

    def _apply_jobs(self, records: list[ReadRecord]) -> None:
        for record in records:
            told = self.view.apply_job(record.key, record.value)
            if told is not None:
                self.uploads.told(told)
            elif record.value is None and record.key is not None:
                self.uploads.forget(record.key.decode(errors="replace"))
        if records:
            self._wake()

    def _clear_jobs(self) -> None:
        """What was written has gone with what was told of it."""
        self.view.clear_jobs()
        self.uploads.forget_all()
        self._wake()

    def _apply_requests(self, records: list[ReadRecord]) -> None:
        for record in records:
            deleted = self.view.apply_request(record.key, record.value, record.timestamp_ms)
            if deleted is not None:
                self.uploads.forget(deleted)
            self._requests_seen = max(self._requests_seen, record.offset)
        if records:
            self._wake()

    def _clear_requests(self) -> None:
        self._requests_seen = -1
        self.view.clear_requests()
        self._wake()

    def _wake(self) -> None:
        """Who waits goes on; who waits from now on waits for what comes next."""
        self._changed.set()
        self._changed.clear()


async def begin_requests(reader: LogReader, topic: str, partition: int) -> int:
    return await offset_at(reader, topic, partition, clock_ms() - REQUESTS_MS)


class FlightsOnDemand:
    """A gateway that nobody asks about flights has none of it. The cluster's state has heartbeats, too."""

    def __init__(self, kafka: Kafka, settings: GatewaySettings, registry: CollectorRegistry) -> None:
        self._kafka = kafka
        self._settings = settings
        self._registry = registry
        self._heartbeats: Heartbeats | None = None
        self._flights: Flights | None = None

    def heartbeats(self) -> Heartbeats:
        if self._heartbeats is None:
            self._heartbeats = Heartbeats(self._kafka.reader)
        return self._heartbeats

    def get(self) -> Flights:
        if self._flights is None:
            self._flights = Flights(self._kafka, self._settings, self._registry, self.heartbeats())
        return self._flights

    async def close(self) -> None:
        for part in (self._flights, self._heartbeats):
            if part is not None:
                await part.close()


def on_demand(connection: HTTPConnection) -> FlightsOnDemand:
    return cast("FlightsOnDemand", connection.app.state.flights)


def flights_of(connection: HTTPConnection) -> Flights:
    return on_demand(connection).get()
