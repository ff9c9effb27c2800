"""Every error is `{"status": "failure", "message": …}` with a fitting status, and never a stack trace."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi.exceptions import RequestValidationError, ResponseValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from penstock.gateway.kafka import errors as kafka

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

log = logging.getLogger(__name__)

JSON: Final = "application/json"
UNAVAILABLE_RETRY_S: Final = 1
INTERNAL_ERROR: Final = "internal error; the gateway's log says more"


class ApiFailure(Exception):  # noqa: N818 - it is an answer
    """What an endpoint raises to answer with an error; `fields` are added to the body."""

    def __init__(
        self, status: int, message: str, *, headers: dict[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers
        self.fields = fields


def failure_body(message: str, **fields: Any) -> bytes:
    return orjson.dumps({"status": "failure", "message": message, **fields})


def failure_response(
    status: int, message: str, *, headers: dict[str, str] | None = None, **fields: Any
) -> Response:
    return Response(failure_body(message, **fields), status, headers, JSON)


def kafka_failure(error: kafka.KafkaClientError) -> ApiFailure:
    """A typed error of the Kafka side as what the client of the gateway should know."""
    for kind, status in STATUS_OF_KAFKA_ERROR.items():
        if isinstance(error, kind):
            headers = {"retry-after": str(UNAVAILABLE_RETRY_S)} if status == 503 else None
            return ApiFailure(status, str(error), headers=headers)
    return ApiFailure(502, str(error))


STATUS_OF_KAFKA_ERROR: Final[dict[type[kafka.KafkaClientError], int]] = {
    kafka.UnknownTopicError: 404,
    kafka.UnknownGroupError: 404,
    kafka.TopicExistsError: 409,
    kafka.InvalidTopicError: 400,
    kafka.InvalidConfigError: 400,
    kafka.InvalidRequestError: 400,
    kafka.MessageTooLargeError: 413,
    kafka.OffsetOutOfRangeError: 416,
    kafka.NotAllowedError: 403,
    kafka.KafkaUnavailableError: 503,
}
"""By the first that fits; anything else that a broker says is 502."""


async def answer_failure(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiFailure)
    return failure_response(error.status, error.message, headers=error.headers, **error.fields)


async def answer_kafka_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, kafka.KafkaClientError)
    return await answer_failure(request, kafka_failure(error))


async def answer_http_exception(_request: Request, error: Exception) -> Response:
    """What the framework raises itself: no such path, wrong method, an unreadable body."""
    assert isinstance(error, HTTPException)
    messages = {
        404: "there is nothing here; GET /docs lists what is",
        405: "that method is not for this path",
    }
    message = messages.get(error.status_code) or str(error.detail)
    headers = dict(error.headers) if error.headers else None
    return failure_response(error.status_code, message, headers=headers)


async def answer_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return failure_response(400, "; ".join(describe_invalid(problem) for problem in error.errors()))


def describe_invalid(problem: dict[str, Any]) -> str:
    """`limit: Input should be a valid integer`: where, without the part of the request, and what."""
    places = [str(place) for place in problem["loc"][1:] or problem["loc"]]
    return f"{'.'.join(places)}: {problem['msg']}"


async def answer_bug(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return failure_response(500, INTERNAL_ERROR)


def install(app: FastAPI) -> None:
    app.add_exception_handler(ApiFailure, answer_failure)
    app.add_exception_handler(kafka.KafkaClientError, answer_kafka_error)
    app.add_exception_handler(HTTPException, answer_http_exception)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(ResponseValidationError, answer_bug)
    app.add_exception_handler(Exception, answer_bug)
