"""The web application: which routers there are, and what they share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI

from penstock import __version__
from penstock.gateway import docs_page, errors
from penstock.gateway.console.install import install as install_console
from penstock.gateway.flights.install import install as install_flights
from penstock.gateway.queue.routes import router as queue_router
from penstock.gateway.queue.topic_queue import TopicQueue
from penstock.gateway.routes.install import install
from penstock.gateway.state import Gateway
from penstock.gateway.traffic.install import install as install_traffic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.gateway.kafka.clients import Kafka
    from penstock.gateway.settings import GatewaySettings


DESCRIPTION: Final = """\
JSON in and out. Every error is an object with the status "failure" and a message. A request may carry an \
X-Request-Id, which its answer repeats. Tokens, where asked for, travel as Authorization: Bearer TOKEN.

Live topics are WebSockets: /v1/topics/{topic}/stream?offset=N|beginning|end&partition=P&format=json|bytes \
sends messages as they come, and /v1/topics/{topic}/produce takes messages and acknowledges each."""


def create_app(settings: GatewaySettings, kafka: Kafka) -> FastAPI:
    """The application; while it runs, `kafka` is open."""

    queue = TopicQueue(kafka, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await kafka.start()
        try:
            yield
        finally:
            await app.state.traffic.close()
            await app.state.flights.close()
            await queue.close()
            await kafka.close()

    app = FastAPI(
        title="Penstock gateway",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.gateway = Gateway(settings, kafka, queue)
    errors.install(app)
    app.include_router(queue_router)
    install(app, settings, kafka)
    install_traffic(app, settings, kafka)
    install_flights(app, settings, kafka)
    install_console(app)
    docs_page.install(app, DESCRIPTION)
    return app
