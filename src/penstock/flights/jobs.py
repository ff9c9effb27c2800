"""What has become of a job, as it is told: on `flights.jobs`, by the gateway and by the commands. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

import orjson

from penstock.flights.records import MANY_STOPOVERS, FastestOf, RecordError, parse_job, strictly

FILES: Final = ("airports", "itineraries")
QUERIES: Final = ("q1", "q2", "q3", "q4")
PRIVATE: Final = "ledger"
"""The service's own notes, in the same record. Nobody else reads them."""


class State(StrEnum):
    RECEIVING = "receiving"
    COMPUTING = "computing"
    """All messages are there."""
    COMPLETE = "complete"
    FAILED = "failed"
    DELETED = "deleted"

    @property
    def is_final(self) -> bool:
        return self in (State.COMPLETE, State.FAILED, State.DELETED)


Readiness = Literal["later", "partial", "complete"]


@dataclass(frozen=True, slots=True)
class FileProgress:
    next: int = 0
    """All messages before this one are there."""
    received: int = 0
    """Different messages that are there; more than `next` if some came early."""
    messages: int | None = None
    """How many there are, once the end was told."""
    bytes: int = 0
    duplicates: int = 0

    @property
    def is_complete(self) -> bool:
        return self.messages is not None and self.next == self.messages


@dataclass(frozen=True, slots=True)
class QueryProgress:
    state: Readiness = "later"
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    job: str
    state: State = State.RECEIVING
    reason: str | None = None
    """Why it failed."""
    created_ms: int = 0
    updated_ms: int = 0
    files: dict[str, FileProgress] = field(default_factory=lambda: {name: FileProgress() for name in FILES})
    queries: dict[str, QueryProgress] = field(
        default_factory=lambda: {name: QueryProgress() for name in QUERIES}
    )
    rows_read: int = 0
    """Of the itineraries, as far as they were looked at."""
    rows_rejected: int = 0
    results_partition: int = 0
    results_offset: int = 0
    """Nothing of this job is on `flights.results` before."""
    summary: dict[str, Any] | None = None
    """As summary.json, when it is complete."""
    expired: bool = False
    """What the service had staged of it is removed; the results stay as long as their topic keeps them."""
    fastest_of: FastestOf = MANY_STOPOVERS
    """Which flights query 3 is about."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self, private: dict[str, Any] | None = None) -> bytes:
        return orjson.dumps({**asdict(self), **({PRIVATE: private} if private is not None else {})})

    @staticmethod
    def from_json(value: bytes | None) -> Job:
        return Job.with_private(value)[0]

    @staticmethod
    def with_private(value: bytes | None) -> tuple[Job, dict[str, Any]]:
        try:
            found = orjson.loads(value or b"")
            private = found.pop(PRIVATE, {})
            found["job"] = parse_job(found["job"])
            found["state"] = State(found["state"])
            found["files"] = {name: strictly(FileProgress, found["files"][name]) for name in FILES}
            found["queries"] = {name: strictly(QueryProgress, found["queries"][name]) for name in QUERIES}
            if not isinstance(private, dict):
                raise TypeError(f"{PRIVATE!r} is no JSON object")
            return strictly(Job, found), private
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(f"not the state of a job: {error}") from error
