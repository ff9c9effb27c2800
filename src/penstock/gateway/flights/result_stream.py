"""A response with the answers to a query, as they come.

What goes wrong after it has begun can not be said in its status. As NDJSON the last line is then an object
with the status "failure", and a message. CSV has no place for that: the connection is ended in the middle of
the body, which no client takes for its end.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from penstock.gateway.errors import failure_body
from penstock.gateway.flights.reading import ResultsError
from penstock.gateway.flights.results import header_line, to_ndjson
from penstock.gateway.kafka.errors import KafkaClientError
from penstock.gateway.streams.event_stream import until_gone
from penstock.gateway.streams.following import Outflow, StalledError, first_to_end

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from penstock.gateway.flights.reading import ResultsReader
    from penstock.gateway.settings import GatewayLimits
    from penstock.gateway.streams.state import Streams

log = logging.getLogger(__name__)

KIND: Final = "flights"
NDJSON: Final = "ndjson"
CSV: Final = "csv"
MEDIA_TYPES: Final = {NDJSON: "application/x-ndjson", CSV: "text/csv; charset=utf-8"}
STOPPING: Final = "the gateway stops: ask again"


class ResultStream(Response):
    def __init__(
        self, reader: ResultsReader, query: str, form: str, streams: Streams, limits: GatewayLimits
    ) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", "content-type": MEDIA_TYPES[form]}
        super().__init__(None, headers=headers)
        del self.headers["content-length"]
        self._reader = reader
        self._query = query
        self._form = form
        self._streams = streams
        self._stall_s_max = limits.stream_stall_seconds_max
        self._is_complete = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with self._streams.metrics.stream(KIND):
            try:
                problem = await self._run(receive, send)
                if problem is None:
                    await self._finish(send, b"")
                elif self._form == NDJSON:
                    await self._finish(send, failure_body(problem) + b"\n")
                else:
                    log.warning("%s ended early: %s", scope["path"], problem)
            except (OSError, TimeoutError):
                return  # the client is gone, or takes nothing any more

    async def _run(self, receive: Receive, send: Send) -> str | None:
        """Until all is sent; or what went wrong."""
        outflow = Outflow(self._stall_s_max)
        is_gone = False

        async def emit(body: bytes) -> None:
            await outflow.send(send({"type": "http.response.body", "body": body, "more_body": True}))

        async def rows() -> None:
            if self._form == CSV:
                await emit(header_line(self._query))
            async with aclosing(self._reader.lines()) as found:
                async for lines in found:
                    if self._form == CSV:
                        await emit(lines)
                    else:
                        for piece in to_ndjson(self._query, lines):
                            await emit(piece)
                            await asyncio.sleep(0)  # a network that takes all does not let others go on
                    self._streams.metrics.sent(KIND, 1)
            self._is_complete = True

        async def gone() -> None:
            nonlocal is_gone
            await until_gone(receive)
            is_gone = True

        async def stopped() -> None:
            await self._streams.stopping.wait()

        try:
            await first_to_end(rows(), outflow.watch(), gone(), stopped())
        except (ResultsError, KafkaClientError) as error:
            return str(error)
        except StalledError as error:
            self._streams.metrics.stalled()
            return str(error)
        if is_gone and not self._is_complete:
            raise OSError("the client is gone")
        return None if self._is_complete else STOPPING

    async def _finish(self, send: Send, body: bytes) -> None:
        async with asyncio.timeout(self._stall_s_max):
            await send({"type": "http.response.body", "body": body, "more_body": False})
