"""The rows of one query, read from a gateway that may be killed and started again at any time.

Rows come in the order of the log, which never changes. So a stream that breaks is read again from its start,
and as many lines as were seen are skipped. A gateway that knows of an error breaks its stream too, or says so
in the last line of NDJSON. Whether it is worth another try, and whether a stream that ended has ended for
good, is decided by the state of the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal

import orjson

from penstock.client.errors import ServerError
from penstock.flights.connection import Answer
from penstock.flights.errors import ResultsLostError
from penstock.flights.jobs import State
from penstock.flights.patience import reason_of
from penstock.flights.refusals import BUSY, refusal
from penstock.flights.upload import require_alive

if TYPE_CHECKING:
    from penstock.flights.connection import Connection
    from penstock.flights.jobs import Job
    from penstock.flights.patience import Patience

Format = Literal["csv", "ndjson"]

STATE_S_MAX: Final = 5.0
"""For so long the state of a job may be behind its results."""
STATE_PAUSE_S: Final = 0.05
FRUITLESS_S_MAX: Final = 30.0
"""The job is complete, and its gateway answers, but no more rows come: then they are believed to be gone."""
FAILURE_LINE: Final = b'{"status":"failure"'
"""How the last line of NDJSON begins if it is no row."""


class Busy(ConnectionError):  # noqa: N818 - it is an answer
    """Not now."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self.retry_after_s = answer.retry_after_s


class ResultStream:
    def __init__(
        self,
        job: str,
        query: str,
        form: Format,
        follow: bool,
        connection: Connection,
        patience: Patience,
        *,
        status: Callable[[], Job],
        is_passing: Callable[[Answer], bool],
        sleep: Callable[[float], object],
    ) -> None:
        self._what = f"job {job}, {query}"
        self._query = query
        self._target = f"/v1/flights/jobs/{job}/results/{query}?format={form}&follow={int(follow)}"
        self._headings = 1 if form == "csv" else 0
        self._follow = follow
        self._connection = connection
        self._patience = patience
        self._status = status
        self._is_passing = is_passing
        self._sleep = sleep
        self._seen = 0
        """Lines that were given, with the heading."""

    def blocks(self) -> Iterator[bytes]:
        """Whole lines, each once; the first is the heading, if the form has one."""
        fruitful = time.monotonic()
        while True:
            before = self._seen
            try:
                yield from self._once()
                if not self._follow or self._is_all():
                    return
                reason, told_s = "the stream ended early", None
            except OSError as error:
                reason, told_s = reason_of(error), error.retry_after_s if isinstance(error, Busy) else None
            if self._seen != before:
                fruitful = time.monotonic()
            self._patience.pause(reason, told_s)
            state = self._status()  # as long as nobody answers, it is too early to say
            require_alive(state)
            if state.state is not State.COMPLETE:
                fruitful = time.monotonic()
            elif time.monotonic() > fruitful + FRUITLESS_S_MAX:
                raise ResultsLostError(f"{self._what}: not all rows can be had any more: {reason}")

    def _once(self) -> Iterator[bytes]:
        blocks = self._connection.stream(self._target)
        if isinstance(blocks, Answer):
            if blocks.status in BUSY or self._is_passing(blocks):
                raise Busy(blocks)
            raise refusal(blocks, self._what)
        self._patience.answered()
        skipped = self._seen
        for received in whole_lines(blocks):
            block, complaint = split_complaint(received)
            lines = block.count(b"\n")
            if lines > skipped:
                self._patience.progress()
                self._seen += lines - skipped
                yield block.split(b"\n", skipped)[-1] if skipped else block
            skipped = max(0, skipped - lines)
            if complaint is not None:
                raise ConnectionError(complaint)

    def _is_all(self) -> bool:
        """The stream ended by itself: because there are no more rows?"""
        deadline = time.monotonic() + STATE_S_MAX
        state = self._status()
        while not state.state.is_final and time.monotonic() < deadline:
            self._sleep(STATE_PAUSE_S)
            state = self._status()
        require_alive(state)
        rows, expected = self._seen - self._headings, state.queries[self._query].rows
        if state.state.is_final and rows > expected:
            raise ServerError(f"{self._what}: {rows} rows came, and there are {expected}")
        return state.state.is_final and rows == expected


def whole_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """A line that is cut short by the end of everything is left out: it will come again."""
    rest = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if not end:
            rest += block
            continue
        yield rest + block[:end] if rest else block[:end]
        rest = block[end:]


def split_complaint(block: bytes) -> tuple[bytes, str | None]:
    """Rows of NDJSON, and why there are no more of them, if the last line says so."""
    start = block.rfind(b"\n", 0, -1) + 1
    if not block.startswith(FAILURE_LINE, start):
        return block, None
    return block[:start], str(orjson.loads(block[start:]).get("message"))
