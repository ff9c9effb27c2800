"""The Flights service as its clients know it: topics, the records on them, chunks of files, states of jobs.

    from penstock.flights import FlightsClient

The other side, the application on Spark that answers, is `penstock.pipelines.flights.service`. `topics`,
`records`, `jobs` and `chunks` are pure. What needs the network is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.flights.client import FlightsClient
    from penstock.flights.errors import (
        JobDeletedError,
        JobFailedError,
        JobNotFoundError,
        ResultsLostError,
        UploadError,
    )
    from penstock.flights.jobs import Job, State

__all__ = [
    "FlightsClient",
    "Job",
    "JobDeletedError",
    "JobFailedError",
    "JobNotFoundError",
    "ResultsLostError",
    "State",
    "UploadError",
]

_MODULES = {
    "FlightsClient": "client",
    "Job": "jobs",
    "JobDeletedError": "errors",
    "JobFailedError": "errors",
    "JobNotFoundError": "errors",
    "ResultsLostError": "errors",
    "State": "jobs",
    "UploadError": "errors",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"penstock.flights.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
