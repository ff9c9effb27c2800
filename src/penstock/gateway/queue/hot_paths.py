"""Producing and consuming without the web framework.

Routing, dependencies and middlewares of FastAPI take three times as long as the work itself. These two paths
are recognised before it and answered with the same functions; the framework knows the routes for the sake of
their documentation.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from penstock.gateway.errors import INTERNAL_ERROR, ApiFailure, failure_body, kafka_failure
from penstock.gateway.kafka.errors import KafkaClientError
from penstock.gateway.protocol import RESPOND
from penstock.gateway.queue import answers
from penstock.gateway.safety import EXTRA_HEADERS

if TYPE_CHECKING:
    from penstock.gateway.queue.topic_queue import TopicQueue
    from penstock.gateway.safety import App, Receive, Scope, Send

log = logging.getLogger(__name__)

PRODUCE: Final = "/producer/produce"
CONSUME: Final = "/consumer/consume"
TYPE: Final = (b"content-type", b"application/json")


class HotPaths:
    def __init__(self, app: App, queue: TopicQueue) -> None:
        self._app = app
        self._queue = queue
        self._handlers = {("POST", PRODUCE): self._produce, ("GET", CONSUME): self._consume}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        handler = self._handlers.get((scope.get("method", ""), path))
        if handler is None:
            await self._app(scope, receive, send)
            return

        async def work() -> tuple[int, bytes]:
            return await handler(scope, await read_body(receive))

        await answer(scope, send, work)

    async def _produce(self, scope: Scope, body: bytes) -> tuple[int, bytes]:
        del scope  # everything is in the body
        return await answers.produce(self._queue, body)

    async def _consume(self, scope: Scope, body: bytes) -> tuple[int, bytes]:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        return await answers.consume(self._queue, query, body)


class ClientGoneError(Exception):
    """Nobody waits for the answer."""


async def answer(scope: Scope, send: Send, work: Callable[[], Awaitable[tuple[int, bytes]]]) -> None:
    """With the status and the JSON that `work` gives, or with what it raises."""
    headers = [TYPE]
    try:
        status, body = await work()
    except ApiFailure as failure:
        status, body = failed(failure, headers)
    except KafkaClientError as error:
        status, body = failed(kafka_failure(error), headers)
    except ClientGoneError:
        return
    except Exception:
        log.exception("%s %s failed", scope["method"], scope["path"])
        status, body = 500, failure_body(INTERNAL_ERROR)
    if status == 204:
        headers = []
    else:
        headers.append((b"content-length", b"%d" % len(body)))
    respond = scope.get("extensions", {}).get(RESPOND)
    extra = scope.get(EXTRA_HEADERS, ())
    # Only `send` understands that a connection is to be closed.
    if status != 413 and respond is not None and respond(status, [*headers, *extra], body):
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return body


def failed(failure: ApiFailure, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    headers += [(name.encode(), value.encode()) for name, value in (failure.headers or {}).items()]
    return failure.status, failure_body(failure.message, **failure.fields)
