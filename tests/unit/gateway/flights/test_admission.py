"""Quotas and bounds."""

from __future__ import annotations

import pytest

from penstock.gateway.flights.admission import Bounds, Standing, refuse_chunk, refuse_job

BOUNDS = Bounds(job_behind=100, behind=200, jobs=5)
QUOTAS = {"job_bytes": 1_000, "total_bytes": 2_000, "jobs": 3}


@pytest.mark.parametrize(
    ("standing", "size", "status", "reason"),
    [
        (Standing(0, 0, 0, 0), 10, None, None),
        (Standing(990, 990, 0, 0), 10, None, None),
        (Standing(991, 991, 0, 0), 10, 413, "quota"),
        (Standing(0, 1_990, 0, 0), 10, None, None),
        (Standing(0, 1_991, 0, 0), 10, 429, "quota"),
        (Standing(90, 90, 90, 90), 10, None, None),
        (Standing(91, 91, 91, 91), 10, 429, "behind"),
        (Standing(0, 0, 0, 191), 10, 429, "behind"),
        (Standing(0, 0, 0, 0), 150, None, None),  # one chunk is always taken
    ],
)
def test_chunks(standing: Standing, size: int, status: int | None, reason: str | None) -> None:
    refusal = refuse_chunk(size, standing, QUOTAS, BOUNDS, "down")
    assert (refusal and refusal.status, refusal and refusal.reason) == (status, reason)
    if refusal is not None:
        assert (refusal.retry_s is None) == (status == 413)
        assert ("down" in refusal.message) == (reason == "behind")


def test_without_heartbeats_only_the_gateways_own_bounds_count() -> None:
    assert refuse_chunk(10, Standing(10**12, 10**12, 0, 0), {}, BOUNDS, "not started") is None
    assert refuse_job(4, {}, BOUNDS) is None
    assert refuse_job(5, {}, BOUNDS) is not None


def test_jobs() -> None:
    assert refuse_job(2, QUOTAS, BOUNDS) is None
    refusal = refuse_job(3, QUOTAS, BOUNDS)
    assert refusal is not None
    assert (refusal.status, refusal.retry_s) == (429, 10)
