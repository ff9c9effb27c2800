"""Sending one file of a job, chunk by chunk, to a gateway that may be killed and started again at any time.

The gateway wants the chunks in their order and says with each answer which is the `next`: the one after, as a
rule; an earlier one if it has forgotten what it had (it died, and the service has not seen it yet); a later
one if somebody has sent it before. So the file is sent by doing what the answers say, and a chunk whose
answer was lost is simply sent again.

Some chunks are on their way at a time, on one connection, so that the gateway never waits for the network or
for the file. When an answer is another than expected, those behind it are given up with the connection: some
may be taken nevertheless, and will be duplicates.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.flights.connection import CSV, JSON, Answer
from penstock.flights.errors import JobDeletedError, JobFailedError, UploadError
from penstock.flights.jobs import Job, State
from penstock.flights.patience import reason_of
from penstock.flights.refusals import BUSY, CONFLICT, SUCCESSES, refusal

if TYPE_CHECKING:
    from penstock.flights.connection import Connection
    from penstock.flights.numbered_chunks import NumberedChunks
    from penstock.flights.patience import Patience

DONE: Final = -1
ON_THEIR_WAY_MAX: Final = 4

Sent = Callable[[str, int], None]
"""Is told the file and how many of its bytes the gateway has taken."""


class FileUpload:
    def __init__(
        self,
        job: str,
        file: str,
        chunks: NumberedChunks,
        connection: Connection,
        patience: Patience,
        *,
        status: Callable[[], Job],
        is_passing: Callable[[Answer], bool],
        sent: Sent,
    ) -> None:
        self._what = f"job {job}, {file}"
        self._file = file
        self._target = f"/v1/flights/jobs/{job}/{file}"
        self._chunks = chunks
        self._connection = connection
        self._patience = patience
        self._status = status
        self._is_passing = is_passing
        self._sent = sent
        self._next = 0
        """To be sent."""
        self._on_their_way = 0
        """Sent, and not answered."""
        self._sent_back: int | None = None
        """Where the last answer wanted to go on, if it was a refusal."""

    def run(self, state: Job) -> None:
        """From where the job is, to the end; UploadError, JobFailedError, JobNotFoundError or
        DisconnectedServerError if that cannot be reached."""
        self._go_to(state.files[self._file].next)
        self._require_same_file(state)
        while True:
            first = self._next - self._on_their_way
            try:
                is_end = self._send_some()
                answer = self._connection.receive()
            except OSError as error:
                self._go_to(first)
                self._patience.pause(reason_of(error))
                continue
            self._on_their_way -= 1
            wanted = self._judge(answer, first, is_end)
            if wanted == DONE:
                return
            if wanted != first + 1 or not self._connection.is_open:
                self._go_to(wanted)

    def _go_to(self, number: int) -> None:
        """UploadError if the file has not so many chunks."""
        if self._on_their_way:
            self._connection.close()
        self._next, self._on_their_way = number, 0
        self._chunks.at(number)

    def _send_some(self) -> bool:
        """Whether it is the end of the file, which is told when all its chunks are there."""
        while self._on_their_way < ON_THEIR_WAY_MAX:
            chunk = self._chunks.at(self._next)
            if chunk is None:
                if not self._on_their_way:
                    self._tell_end(self._next)
                    self._on_their_way = 1
                    return True
                break
            self._connection.send("PUT", f"{self._target}?message={self._next}", chunk, CSV)
            self._next += 1
            self._on_their_way += 1
        return False

    def _tell_end(self, messages: int) -> None:
        body = json.dumps({"messages": messages}).encode()
        self._connection.send("POST", f"{self._target}/end", body, JSON)

    def _judge(self, answer: Answer, number: int, is_end: bool) -> int:
        """The number to go on with."""
        if answer.status in SUCCESSES:
            self._patience.progress()
            self._sent_back = None
            if is_end:
                return DONE
            following = answer.number("next")
            self._sent(self._file, self._chunks.start(number + 1))
            return number + 1 if following is None else following
        if answer.status in BUSY or self._is_passing(answer):
            self._patience.pause(answer.message, answer.retry_after_s)
            return number
        if answer.status != CONFLICT:
            raise refusal(answer, self._what)
        following = answer.number("next")
        is_over = answer.fields.get("state") is not None  # and not just this chunk that is refused
        if is_over or following is None or following in (number, self._sent_back):
            return self._explained(answer)
        self._sent_back = following
        return following

    def _explained(self, answer: Answer) -> int:
        """A refusal that going elsewhere does not help against: the job is over, or its file is."""
        state = self._status()
        require_alive(state)
        messages = state.files[self._file].messages
        if messages is None:
            raise refusal(answer, self._what)
        if self._chunks.at(messages) is not None:
            raise UploadError(
                f"{self._chunks.path}: it has more chunks than the {messages} of the job's file"
            )
        return DONE

    def _require_same_file(self, state: Job) -> None:
        """What was sent before, perhaps by another process, must be what would be sent now."""
        there = state.files[self._file]
        here = self._chunks.start(there.next)
        if there.received == there.next and there.bytes != here:
            raise UploadError(
                f"{self._chunks.path}: its first {there.next} chunks have {here} bytes, those of the job "
                f"{there.bytes}: it is not the same file"
            )


def require_alive(state: Job) -> None:
    if state.state is State.FAILED:
        raise JobFailedError(state.job, state.reason or "no reason was told")
    if state.state is State.DELETED:
        raise JobDeletedError(f"job {state.job} was deleted")
