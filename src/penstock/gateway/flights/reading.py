"""The answers to a query as lines of CSV, from `flights.results`, until they are complete or cannot be.

Rows and the state of their job are committed together, on two topics. So whoever has read everything waits
for news of the job, and then looks again. The two commits are not seen at the same instant: of a job that is
done, the last records may be missing for a moment, and only if they stay away are they not kept any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.flights.jobs import Job, State
from penstock.flights.topics import RESULTS
from penstock.gateway.flights.results import ResultReading
from penstock.gateway.kafka.errors import OffsetOutOfRangeError, UnknownTopicError

if TYPE_CHECKING:
    from penstock.gateway.flights.state import Flights
    from penstock.gateway.kafka.reader import LogReader
    from penstock.kafka.records import Fetched

FETCH_BYTES: Final = 512 * 1024
NEWS_S_MAX: Final = 2.0
"""Then it looks without news."""
BEHIND_WAIT_MS: Final = 100
MISSING_S_MAX: Final = 5.0
"""For the last records of a job that is done."""
NOT_KEPT: Final = "the results are not kept any more"


class ResultsError(Exception):
    """There will be no more, and what was told is not all; the message is for who reads."""


class ResultsReader:
    def __init__(self, flights: Flights, reader: LogReader, job: str, query: str, *, follow: bool) -> None:
        self._flights = flights
        self._reader = reader
        self._job = job
        self._query = query
        self._follow = follow
        self._reading = ResultReading(job, query)
        self._missing_since: float | None = None
        """All was read, and the job is done."""

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """ResultsError says why it ends before its end, as do errors of the log's reader."""
        job = await self._told()
        if job is None:
            return
        partition = job.results_partition
        try:
            offsets = await self._reader.offsets(RESULTS, partition)
        except UnknownTopicError:
            raise ResultsError(NOT_KEPT) from None
        offset, end = max(job.results_offset, offsets.start), offsets.end
        wait_ms = 0
        while True:
            fetched = await self._fetch(partition, offset, wait_ms)
            for record in fetched.records:
                if (lines := self._reading.take(record.key, record.headers, record.value)) is not None:
                    yield lines
            if self._reading.failed is not None:
                raise ResultsError(self._reading.failed)
            if self._reading.ended:
                return
            if fetched.next_offset > offset:
                offset, wait_ms, self._missing_since = fetched.next_offset, 0, None
                continue
            if not await self._may_go_on(offset >= end):
                return
            wait_ms = BEHIND_WAIT_MS

    async def _may_go_on(self, has_read_all: bool) -> bool:
        """After everything was read that is there: when it is worth a look again, if ever."""
        if not self._is_done():
            if has_read_all and not self._follow:
                return False
            await self._news()
            return True
        now = asyncio.get_running_loop().time()
        if self._missing_since is None:
            self._missing_since = now
        if now - self._missing_since >= MISSING_S_MAX:
            raise ResultsError(NOT_KEPT)
        return True

    async def _told(self) -> Job | None:
        """The job, once the service has told where its results will be; None if that is not waited for."""
        while not self._flights.view.is_told(self._job):
            self._is_done()
            if not self._follow:
                return None
            await self._news()
        return self._flights.view.get(self._job)

    def _is_done(self) -> bool:
        """Whether the last record should be there."""
        job = self._flights.view.get(self._job)
        if job is None or job.state is State.DELETED:
            raise ResultsError("the job was deleted")
        return job.state.is_final

    async def _fetch(self, partition: int, offset: int, wait_ms: int) -> Fetched:
        try:
            return await self._reader.fetch(
                RESULTS, partition, offset, max_bytes=FETCH_BYTES, wait_ms=wait_ms
            )
        except (OffsetOutOfRangeError, UnknownTopicError):
            raise ResultsError(NOT_KEPT) from None

    async def _news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(NEWS_S_MAX):
                await self._flights.change()
