"""Memory for chunks that are being read or written, of all requests together, with a share for each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.flights.chunks import CHUNK_BYTES_MAX

JOB_CHUNKS_MAX: Final = 8
"""Of one job: who begins many chunks and does not send them is in nobody else's way. Chunks of a file are
written one after the other, so more would not be faster."""


class BodyRoom:
    def __init__(self, bytes_max: int, job_bytes_max: int = JOB_CHUNKS_MAX * CHUNK_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._job_bytes_max = job_bytes_max
        self._of_jobs: Counter[str] = Counter()
        self.bytes = 0

    @contextmanager
    def hold(self, job: str, size: int) -> Iterator[bool]:
        """Whether there is room for a chunk, while the block runs; 0: nobody knows how large it will be."""
        size = size or CHUNK_BYTES_MAX
        has_room = fits(self.bytes, size, self._bytes_max) and fits(
            self._of_jobs[job], size, self._job_bytes_max
        )
        taken = size if has_room else 0
        self._take(job, taken)
        try:
            yield has_room
        finally:
            self._take(job, -taken)

    def _take(self, job: str, size: int) -> None:
        self.bytes += size
        self._of_jobs[job] += size
        if not self._of_jobs[job]:
            del self._of_jobs[job]


def fits(there: int, size: int, bytes_max: int) -> bool:
    """One chunk always does."""
    return there + size <= bytes_max or not there
