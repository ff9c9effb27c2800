"""What is known of jobs: from the service's own word, and from requests that it may not have seen yet. Pure.

A job that was asked for is there, and one that was asked to be deleted is gone, before the service says so.
Only so many are remembered; over it, those go first that are done and oldest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.flights.jobs import Job, State
from penstock.flights.records import (
    MANY_STOPOVERS,
    FastestOf,
    RecordError,
    Request,
    parse_fastest_of,
    parse_job,
    parse_request,
)

REQUESTS_MS: Final = 7 * 24 * 3_600_000
"""Older requests say nothing any more: the service has had its time to see them, and to forget the job."""


class JobsView:
    def __init__(self, jobs_max: int) -> None:
        self._jobs_max = jobs_max
        self._told: dict[str, Job] = {}
        """By the service."""
        self._wanted: dict[str, Job] = {}
        """As they were asked for, those that the service has not told of."""
        self._deleted: set[str] = set()
        """Those that somebody asked to be deleted, and the service has not told of that."""
        self.open_bytes = 0
        """Of all jobs that are not done, as far as the service has told."""
        self.open_jobs = 0
        self.refused = 0
        """Records that are nothing of the kind."""

    def __len__(self) -> int:
        return len(self._told) + len(self._wanted)

    def get(self, job: str) -> Job | None:
        known = self._told.get(job) or self._wanted.get(job)
        if known is not None and job in self._deleted:
            return replace(known, state=State.DELETED, reason=None)
        return known

    def is_told(self, job: str) -> bool:
        """Whether the service has seen it: then it is known where its results are."""
        return job in self._told

    def newest(self, limit: int) -> list[Job]:
        """Without those that were deleted."""
        every = [self.get(job) for job in (*self._told, *self._wanted)]
        there = [job for job in every if job is not None and job.state is not State.DELETED]
        there.sort(key=lambda each: (each.created_ms, each.job), reverse=True)
        return there[:limit]

    # What is heard

    def apply_job(self, key: bytes | None, value: bytes | None) -> Job | None:
        """The next record of `flights.jobs`; what it says, unless that is nothing."""
        try:
            job = parse_job(key)
            told = Job.from_json(value) if value is not None else None
            if told is not None and told.job != job:
                raise RecordError("the state of another job")
        except RecordError:
            self.refused += 1
            return None
        self._forget_told(job)
        self._forget_wanted(job)
        if told is None:
            self._deleted.discard(job)
            return None
        self._told[job] = told
        if told.state is State.DELETED:
            self._deleted.discard(job)
        if not told.state.is_final:
            self.open_jobs += 1
            self.open_bytes += bytes_of(told)
        self._make_room()
        return told

    def apply_request(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> str | None:
        """The next record of `flights.requests`; the job that is to be deleted by it, if it is such a one."""
        try:
            job, request, fastest_of = parse_job(key), parse_request(value), parse_fastest_of(value)
        except RecordError:
            self.refused += 1
            return None
        if request is Request.CREATE:
            self.wanted(job, timestamp_ms, fastest_of)
        elif request is Request.DELETE:
            self.deleted(job)
            return job
        return None

    def wanted(self, job: str, at_ms: int, fastest_of: FastestOf = MANY_STOPOVERS) -> None:
        if job not in self._told and job not in self._wanted:
            self._wanted[job] = Job(job, created_ms=at_ms, updated_ms=at_ms, fastest_of=fastest_of)
            self.open_jobs += 1
            self._make_room()

    def deleted(self, job: str) -> None:
        known = self.get(job)
        if known is not None and known.state is not State.DELETED:
            self._deleted.add(job)

    def clear_jobs(self) -> None:
        """The topic with the service's word is gone."""
        for job in list(self._told):
            self._forget_told(job)
        self._deleted &= self._wanted.keys()

    def clear_requests(self) -> None:
        for job in list(self._wanted):
            self._forget_wanted(job)
        self._deleted &= self._told.keys()

    def _forget_told(self, job: str) -> None:
        told = self._told.pop(job, None)
        if told is not None and not told.state.is_final:
            self.open_jobs -= 1
            self.open_bytes -= bytes_of(told)

    def _forget_wanted(self, job: str) -> None:
        if self._wanted.pop(job, None) is not None:
            self.open_jobs -= 1

    def _make_room(self) -> None:
        if len(self) <= self._jobs_max:
            return
        done = [each for each in self._told.values() if each.state.is_final]
        if done:
            oldest = min(done, key=lambda each: each.updated_ms).job
            self._forget_told(oldest)
            self._deleted.discard(oldest)
        else:
            job = next(iter(self._wanted or self._told))
            self._forget_wanted(job)
            self._forget_told(job)
            self._deleted.discard(job)


def bytes_of(job: Job) -> int:
    return sum(file.bytes for file in job.files.values())
