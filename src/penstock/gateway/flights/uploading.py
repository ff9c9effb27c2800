"""From a request to a record: one write at a time for each file, so that a file's messages are in their order
on the log, and whoever is told a number can rely on all before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from penstock.flights.chunks import ChunkError, check_chunk
from penstock.flights.jobs import Job, State
from penstock.gateway.errors import ApiFailure
from penstock.gateway.flights.admission import Bounds, Refusal, Standing, refuse_chunk
from penstock.gateway.flights.uploads import Uploads, Verdict
from penstock.gateway.kafka.errors import KafkaClientError
from penstock.gateway.queue.keyed_locks import KeyedLocks

if TYPE_CHECKING:
    from penstock.gateway.flights.heartbeats import Heartbeats
    from penstock.gateway.flights.jobs_view import JobsView
    from penstock.gateway.flights.metrics import FlightsMetrics
    from penstock.gateway.flights.room import BodyRoom
    from penstock.gateway.flights.writing import FlightsWriter


class Taken(NamedTuple):
    next: int
    is_duplicate: bool = False


class Uploader:
    def __init__(
        self,
        view: JobsView,
        uploads: Uploads,
        heartbeats: Heartbeats,
        writer: FlightsWriter,
        metrics: FlightsMetrics,
        bounds: Bounds,
        room: BodyRoom,
    ) -> None:
        self._view = view
        self._uploads = uploads
        self._heartbeats = heartbeats
        self._writer = writer
        self._metrics = metrics
        self._bounds = bounds
        self._room = room
        self._turns = KeyedLocks()

    async def put(
        self, job: str, file: str, message: int, size: int, read: Callable[[], Awaitable[bytes]]
    ) -> Taken:
        """`size` is what the body is said to have, 0 if nothing is said. It is read only if it is wanted."""
        if (known := self._known_before(job, file, message)) is not None:
            return known
        await self._admit(self._open(job, file), size)
        with self._room.hold(job, size) as has_room:
            if not has_room:
                self._refuse(Refusal(429, "busy", "too many chunks are on their way: try later", 1))
            body = await read()
            self._check(file, message, body)
            async with self._turns.hold((job, file)):
                return await self._write(job, file, message, body)

    async def end(self, job: str, file: str, messages: int) -> Taken:
        async with self._turns.hold((job, file)):
            upload = self._uploads.file(self._open(job, file), file)
            verdict = upload.judge_end(messages)
            if verdict is Verdict.ENDED:
                self._refuse_number(job, file, "ended", f"{file} ended after {upload.end} messages")
            if verdict is Verdict.GAP:
                message = f"{messages} messages of {file} would be the end, and {upload.next} are there"
                self._refuse_number(job, file, "gap", message)
            if verdict is Verdict.WRITE:
                await self._written(self._writer.end(job, file, messages))
                upload.end = messages
            return Taken(upload.next, verdict is Verdict.DUPLICATE)

    def _known_before(self, job: str, file: str, message: int) -> Taken | None:
        """What can be said without the body."""
        upload = self._uploads.file(self._open(job, file), file)
        verdict = upload.judge(message)
        if verdict is Verdict.DUPLICATE:
            self._metrics.repeated()
            return Taken(upload.next, True)
        # While another is written, this may be the one after it.
        if verdict is not Verdict.WRITE and (job, file) not in self._turns:
            self._refuse_message(job, file, message, verdict)
        return None

    async def _write(self, job: str, file: str, message: int, body: bytes) -> Taken:
        known = self._open(job, file)  # all may have changed while the body came
        upload = self._uploads.file(known, file)
        verdict = upload.judge(message)
        if verdict is Verdict.DUPLICATE:
            self._metrics.repeated()
            return Taken(upload.next, True)
        if verdict is not Verdict.WRITE:
            self._refuse_message(job, file, message, verdict)
        await self._admit(known, len(body))
        await self._written(self._writer.chunk(job, file, message, body))
        self._metrics.written(file, len(body))
        return Taken(self._uploads.written(self._view.get(job) or known, file, message, len(body)))

    async def _written(self, writing: Awaitable[None]) -> None:
        try:
            await writing
        except KafkaClientError:
            self._metrics.refused("unavailable")
            raise

    async def _admit(self, job: Job, size: int) -> None:
        pulse = await self._heartbeats.known()
        standing = Standing(
            job_bytes=self._uploads.bytes_of(job),
            bytes=self._view.open_bytes + self._uploads.behind,
            job_behind=self._uploads.behind_of(job.job),
            behind=self._uploads.behind,
        )
        refusal = refuse_chunk(size, standing, pulse.quotas, self._bounds, self._heartbeats.state())
        if refusal is not None:
            self._refuse(refusal)

    def _check(self, file: str, message: int, body: bytes) -> None:
        try:
            check_chunk(file, message, body)
        except ChunkError as error:
            self._metrics.refused("malformed")
            raise ApiFailure(400, str(error)) from None

    def _open(self, job: str, file: str) -> Job:
        """The job, if something may be sent to it; or if something may be sent again."""
        known = self._view.get(job)
        if known is None or known.state is State.DELETED:
            self._metrics.refused("no job")
            raise no_job(job, known)
        if known.state is State.FAILED:
            self._metrics.refused("failed")
            raise ApiFailure(
                409, f"the job has failed: {known.reason}", state=known.state, next=known.files[file].next
            )
        return known

    def _refuse(self, refusal: Refusal) -> NoReturn:
        self._metrics.refused(refusal.reason)
        headers = {"retry-after": str(refusal.retry_s)} if refusal.retry_s is not None else None
        raise ApiFailure(refusal.status, refusal.message, headers=headers)

    def _refuse_message(self, job: str, file: str, message: int, verdict: Verdict) -> NoReturn:
        upload = self._uploads.file(self._open(job, file), file)
        if verdict is Verdict.ENDED:
            self._refuse_number(job, file, "ended", f"{file} ended after {upload.end} messages")
        text = f"message {message} of {file} would leave a gap: {upload.next} is next"
        self._refuse_number(job, file, "gap", text)

    def _refuse_number(self, job: str, file: str, reason: str, message: str) -> NoReturn:
        self._metrics.refused(reason)
        raise ApiFailure(409, message, next=self._uploads.file(self._open(job, file), file).next)


def no_job(job: str, known: Job | None) -> ApiFailure:
    if known is None:
        return ApiFailure(404, f"there is no job {job}")
    return ApiFailure(410, f"the job {job} was deleted", state=State.DELETED)
