"""Taking chunks without the web framework, whose routing takes as long as all the rest.

The path is recognised before it and answered with the same function; the framework knows the route for the
sake of its documentation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.gateway.flights.chunk_requests import take_chunk
from penstock.gateway.queue.hot_paths import answer

if TYPE_CHECKING:
    from penstock.gateway.flights.state import FlightsOnDemand
    from penstock.gateway.safety import App, Receive, Scope, Send

CHUNK: Final = re.compile("/v1/flights/jobs/([^/]+)/([a-z]+)")


class HotUploads:
    def __init__(self, app: App, flights: FlightsOnDemand) -> None:
        self._app = app
        self._flights = flights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = CHUNK.fullmatch(scope["path"]) if scope.get("method") == "PUT" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        job, file = found.groups()

        async def work() -> tuple[int, bytes]:
            return 200, await take_chunk(self._flights.get(), scope, receive, job, file)

        await answer(scope, send, work)
