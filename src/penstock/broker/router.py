"""From a frame to the handler of its (key, version), and from what that returns to a response frame.

A handler returns one of

* a mapping: the response body, encoded through the schema of the request's version;
* `EncodedBody`: a body it encoded itself;
* `NoResponse`: nothing is sent;
* a coroutine of one of these: later requests of the connection wait for it;
* a `Deferred` of one of these: later requests of the connection go on meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from penstock.broker.context import ConnectionState, RequestContext
from penstock.broker.handlers import api_versions
from penstock.broker.reply import Deferred, EncodedBody, NoResponse, Reply
from penstock.types import ApiError, ErrorCode
from penstock.wire.codec import (
    API_VERSIONS_KEY,
    PRODUCE_KEY,
    MessageCodec,
    RequestHeader,
    read_request_header,
)
from penstock.wire.primitives import DecodeError, skip_tagged_fields

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.wire.registry import Handler

log = logging.getLogger(__name__)


class Waiting:
    """A request whose handler waits for something: `reply` is awaited, then or instead `close` is called."""

    __slots__ = ("_codec", "_correlation_id", "_work")

    def __init__(self, codec: MessageCodec, correlation_id: int, work: Coroutine[Any, Any, object]) -> None:
        self._codec = codec
        self._correlation_id = correlation_id
        self._work = work

    async def reply(self) -> Reply:
        return encode(self._codec, self._correlation_id, await self._work)

    def close(self) -> None:
        self._work.close()


Dispatched = Reply | Deferred[Reply] | Waiting


class Router:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._registry = broker.registry
        self._metrics = broker.metrics
        self._request_bytes_max = broker.config.limits.request_bytes_max

    def dispatch(self, frame: bytes | memoryview, connection: ConnectionState) -> Dispatched:
        """Raises DecodeError when the connection cannot go on."""
        header = read_request_header(frame)
        version = header.api_version
        handler = self._registry.find(header.api_key, version)
        if handler is None:
            raise DecodeError(f"API {header.api_key} is not served")
        if version not in handler.versions:
            if header.api_key == API_VERSIONS_KEY:
                body = api_versions.body(self._registry, ErrorCode.unsupported_version)
                return encode(handler.codec(0), header.correlation_id, body)
            raise DecodeError(f"version {version} of API {header.api_key} is not served")
        if len(frame) > self._request_bytes_max and header.api_key != PRODUCE_KEY:
            raise DecodeError(f"{len(frame)} bytes for API {header.api_key}")
        self._metrics.requests[header.api_key] += 1
        codec = handler.codec(version)
        raw, request = handler.read_request(codec, frame, header)
        context = RequestContext(self._broker, version, header.client_id, connection, raw)
        if handler.forwarded and not self._broker.controller.is_active:
            as_it_came = memoryview(frame)[body_start(codec, frame, header) :]
            return Waiting(
                codec, header.correlation_id, self._forward(handler, codec, as_it_came, request, context)
            )
        result = handler.function(request, context)
        if isinstance(result, Deferred):
            encoded: Deferred[Reply] = Deferred()
            result.then(lambda value: encoded.resolve(encode(codec, header.correlation_id, value)))
            return encoded
        if isinstance(result, Coroutine):
            return Waiting(codec, header.correlation_id, result)
        return encode(codec, header.correlation_id, result)

    async def _forward(
        self, handler: Handler, codec: MessageCodec, body: memoryview, request: Any, context: RequestContext
    ) -> object:
        try:
            answer = await self._broker.channel.forward(
                handler.key, context.api_version, codec.is_flexible, body
            )
        except ApiError as error:
            if not self._broker.controller.is_active:
                # The handler knows how to say so.
                log.info("API %d is not sent on: %s", handler.key, error)
                context.forwarding_error = error
            return await handler.function(request, context)
        return EncodedBody([answer])


def body_start(codec: MessageCodec, frame: bytes | memoryview, header: RequestHeader) -> int:
    return skip_tagged_fields(frame, header.end) if codec.is_flexible else header.end


def encode(codec: MessageCodec, correlation_id: int, result: object) -> Reply:
    if isinstance(result, EncodedBody):
        size = sum(map(len, result.buffers))
        return Reply((codec.response_prefix(correlation_id, size), *result.buffers))
    if isinstance(result, NoResponse):
        return Reply(close_after=result.close_after)
    assert isinstance(result, Mapping), f"a handler returned {type(result)}"
    return Reply((codec.write_response(correlation_id, result),))
