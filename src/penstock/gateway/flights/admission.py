"""Whether a chunk or a job is taken now: the service's quotas, and this gateway's own bounds. Pure.

What the service does not allow it would turn into a failure of the job, so it is refused before. Bounds on
what it has not taken yet keep a fast client, or a service that is down, from filling the brokers' disks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

BEHIND_RETRY_S: Final = 1
QUOTA_RETRY_S: Final = 10


@dataclass(frozen=True, slots=True)
class Bounds:
    job_behind: int
    """Bytes of one job that may wait for the service."""
    behind: int
    """Of all jobs together."""
    jobs: int
    """That are not done."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Bytes, before the chunk in question."""

    job_bytes: int
    bytes: int
    """Of all jobs that are not done."""
    job_behind: int
    behind: int


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    reason: str
    """One word, for the metrics."""
    message: str
    retry_s: int | None = None
    """None: trying again will not help."""


def refuse_chunk(
    size: int, standing: Standing, quotas: Mapping[str, int], bounds: Bounds, service: str
) -> Refusal | None:
    """`quotas` are those of a heartbeat; `service` is how the service is."""
    job_max, total_max = quotas.get("job_bytes"), quotas.get("total_bytes")
    if job_max is not None and standing.job_bytes + size > job_max:
        return Refusal(
            413, "quota", f"a job may have {job_max} bytes, and with this chunk it would have more"
        )
    if total_max is not None and standing.bytes + size > total_max:
        message = f"all jobs together have the {total_max} bytes that they may have: try later"
        return Refusal(429, "quota", message, QUOTA_RETRY_S)
    # One chunk is always taken, however small the bound.
    if standing.job_behind and standing.job_behind + size > bounds.job_behind:
        message = (
            f"{standing.job_behind} bytes of this job wait for the service, which is {service}: try later"
        )
        return Refusal(429, "behind", message, BEHIND_RETRY_S)
    if standing.behind and standing.behind + size > bounds.behind:
        message = f"{standing.behind} bytes of all jobs wait for the service, which is {service}: try later"
        return Refusal(429, "behind", message, BEHIND_RETRY_S)
    return None


def refuse_job(open_jobs: int, quotas: Mapping[str, int], bounds: Bounds) -> Refusal | None:
    jobs_max = min(quotas.get("jobs", bounds.jobs), bounds.jobs)
    if open_jobs >= jobs_max:
        message = f"{open_jobs} jobs are not done, and there may be {jobs_max}: try later"
        return Refusal(429, "quota", message, QUOTA_RETRY_S)
    return None
