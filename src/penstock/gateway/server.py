"""A gateway as a process: bind, serve until SIGINT or SIGTERM, stop cleanly."""

from __future__ import annotations

import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import uvicorn
import uvloop

from penstock.gateway.access import read_tokens
from penstock.gateway.app import create_app
from penstock.gateway.flights.hot_uploads import HotUploads
from penstock.gateway.kafka.clients import Kafka
from penstock.gateway.protocol import GatewayProtocol
from penstock.gateway.queue.hot_paths import HotPaths
from penstock.gateway.safety import App, Guard
from penstock.gateway.streams.socket_protocol import GatewaySocketProtocol
from penstock.gateway.streams.state import streams_in
from penstock.listening import bind, format_address

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.gateway.settings import GatewaySettings

OnReady = Callable[[str], None]
"""Called once with the address when the gateway serves."""

GC_ALLOCATIONS: Final = 20_000
"""Between two collections. Requests leave few cycles behind."""
BACKLOG: Final = 2048
WEBSOCKET_BYTES_MAX: Final = 8 * 1024 * 1024


class Server(uvicorn.Server):
    """uvicorn's, which says when it serves and when it stops, and whose exit code after a signal is 0."""

    def __init__(
        self, config: uvicorn.Config, on_serving: Callable[[], None], on_stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_serving = on_serving
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_serving()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        await super().shutdown(sockets)


def run_gateway(settings: GatewaySettings, on_ready: OnReady) -> None:
    """Run until a signal. OSError says why it can not listen."""
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    allow_open_files()
    listening = bind(settings.host, settings.http_port)
    listening.listen(BACKLOG)
    limits = settings.limits
    drop_deaf_clients(listening, limits.stream_stall_seconds_max + limits.stream_close_seconds_max)
    url = f"http://{format_address(settings.host, listening.getsockname()[1])}"
    app = create_app(settings, Kafka(settings))
    server = Server(uvicorn_config(settings, app), lambda: on_ready(url), streams_in(app).stop)
    gc.freeze()  # what is imported by now stays; the collector need not look at it ever again
    gc.set_threshold(GC_ALLOCATIONS)
    # uvicorn raises the signal again when it has stopped; a clean stop is no failure.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    uvloop.run(server.serve(sockets=[listening]))


def uvicorn_config(settings: GatewaySettings, app: FastAPI) -> uvicorn.Config:
    limits = settings.limits
    return uvicorn.Config(
        guarded(app, settings),
        http=GatewayProtocol.with_limits(limits),
        ws=GatewaySocketProtocol.with_limits(limits),
        ws_max_size=WEBSOCKET_BYTES_MAX,
        ws_per_message_deflate=False,  # most of what travels is small, or does not compress
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # whoever can connect could claim any address
        server_header=False,
        timeout_keep_alive=round(limits.idle_seconds_max),
        timeout_graceful_shutdown=round(limits.stop_seconds_max),
    )


def guarded(app: FastAPI, settings: GatewaySettings) -> App:
    """The application behind everything that a request has to pass."""
    tokens = read_tokens(settings.http_token_file) if settings.http_token_file is not None else None
    hot = HotUploads(HotPaths(app, app.state.gateway.queue), app.state.flights)
    return Guard(hot, settings, tokens)


def drop_deaf_clients(listening: socket.socket, seconds: float) -> None:
    """A connection ends when its client takes nothing for so long, also one that is being closed and still
    holds what was sent. Connections inherit it from the socket; other systems than Linux do without."""
    if sys.platform == "linux":
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def allow_open_files() -> None:
    """As many as the system allows: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
