"""What can go wrong for a client of the Flights service, beside what can for every client of a gateway."""

from __future__ import annotations

from penstock.client.errors import PenstockError


class JobNotFoundError(PenstockError):
    """The gateway knows no such job."""


class JobDeletedError(JobNotFoundError):
    """The job was deleted, and its id is not given again."""


class JobFailedError(PenstockError):
    """The job has failed, for this `reason`; there will be no more results."""

    def __init__(self, job: str, reason: str) -> None:
        super().__init__(job, reason)
        self.job = job
        self.reason = reason

    def __str__(self) -> str:
        return f"job {self.job} failed: {self.reason}"


class UploadError(PenstockError):
    """A file that cannot be used, that the gateway does not take, or that is not the one the job has."""


class ResultsLostError(PenstockError):
    """The topic no longer has all rows that the job had."""
