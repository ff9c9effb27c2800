"""Every error has the same shape, whoever raises it, and says nothing about the inside."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from confluent_kafka import KafkaError
from fastapi import FastAPI

from penstock.gateway import errors
from penstock.gateway.kafka import errors as kafka
from penstock.gateway.kafka.librdkafka import error_of
from penstock.gateway.queue.hot_paths import HotPaths
from tests.unit.gateway.asgi import call

KAFKA_ERRORS = [
    (kafka.UnknownTopicError("t"), 404, "t"),
    (kafka.UnknownPartitionError("t", 3), 404, "3"),
    (kafka.TopicExistsError("it is there"), 409, "there"),
    (kafka.InvalidTopicError("no name"), 400, "name"),
    (kafka.InvalidConfigError("no such setting"), 400, "setting"),
    (kafka.InvalidRequestError("too many replicas"), 400, "replicas"),
    (kafka.MessageTooLargeError("large"), 413, "large"),
    (kafka.OffsetOutOfRangeError("t", 0, 9, 1, 5), 416, "9"),
    (kafka.NotAllowedError("no"), 403, "no"),
    (kafka.NotEnoughReplicasError("one of three"), 503, "one"),
    (kafka.KafkaUnavailableError("nobody answers"), 503, "nobody"),
    (kafka.KafkaClientError("what a broker says"), 502, "says"),
]


def application(error: Exception) -> FastAPI:
    app = FastAPI()
    errors.install(app)

    @app.get("/raise")
    async def fail() -> None:
        raise error

    @app.get("/limited")
    async def limited(limit: int) -> int:
        return limit

    return app


@pytest.mark.parametrize(("error", "status", "words"), KAFKA_ERRORS, ids=lambda value: type(value).__name__)
def test_errors_of_the_cluster(error: Exception, status: int, words: str) -> None:
    answer = call(application(error), path="/raise")
    assert answer.status == status
    assert answer.json() == {"status": "failure", "message": str(error)}
    assert words in answer.json()["message"]
    assert ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize(("error", "status", "words"), KAFKA_ERRORS, ids=lambda value: type(value).__name__)
def test_errors_of_the_cluster_on_the_hot_paths(error: Exception, status: int, words: str) -> None:
    answer = call(HotPaths(nobody, Failing(error)), "POST", "/producer/produce", body=BODY)
    assert answer.status == status
    assert answer.json() == {"status": "failure", "message": str(error)}
    assert ("retry-after" in answer.headers) == (status == 503)


BODY = b'{"topic":"t","producer_id":1,"message":"m"}'


class Failing:
    """A queue."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def produce(self, *_: Any) -> tuple[int, int]:
        raise self._error

    async def consume(self, *_: Any) -> None:
        raise self._error


def answering(app: FastAPI) -> Any:
    """The framework raises what it has answered, for the server's log."""

    async def call_app(scope: Any, receive: Any, send: Any) -> None:
        with contextlib.suppress(ZeroDivisionError):
            await app(scope, receive, send)

    return call_app


async def nobody(*_: Any) -> None:
    raise AssertionError("the framework is not asked")


def test_a_bug_shows_nothing_of_the_inside(caplog: pytest.LogCaptureFixture) -> None:
    error = ZeroDivisionError("the secret of the inside")
    answer = call(answering(application(error)), path="/raise")
    hot = call(HotPaths(nobody, Failing(error)), path="/consumer/consume", query="topic=t&consumer_id=1")
    assert answer.status == hot.status == 500
    assert answer.json() == hot.json() == {"status": "failure", "message": errors.INTERNAL_ERROR}
    assert caplog.text.count("the secret of the inside") >= 2, "the log says more"


def test_fields_and_headers_of_a_failure() -> None:
    failure = errors.ApiFailure(409, "a gap", headers={"retry-after": "7"}, next=3)
    answer = call(application(failure), path="/raise")
    assert answer.json() == {"status": "failure", "message": "a gap", "next": 3}
    assert answer.headers["retry-after"] == "7"


def test_what_the_framework_finds_wrong() -> None:
    app = application(ValueError())
    wrong, missing = call(app, path="/limited", query="limit=x"), call(app, path="/limited")
    nowhere, method = call(app, path="/nowhere"), call(app, "POST", "/raise")
    assert [answer.status for answer in (wrong, missing, nowhere, method)] == [400, 400, 404, 405]
    assert all(answer.json()["status"] == "failure" for answer in (wrong, missing, nowhere, method))
    assert "limit" in wrong.json()["message"]
    assert method.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, kafka.UnknownTopicError),
        (KafkaError.TOPIC_ALREADY_EXISTS, kafka.TopicExistsError),
        (KafkaError.MSG_SIZE_TOO_LARGE, kafka.MessageTooLargeError),
        (KafkaError.NOT_ENOUGH_REPLICAS, kafka.NotEnoughReplicasError),
        (KafkaError._MSG_TIMED_OUT, kafka.KafkaUnavailableError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, kafka.NotAllowedError),
        (KafkaError.UNKNOWN, kafka.KafkaClientError),
    ],
)
def test_librdkafka_in_our_words(code: int, kind: type[Exception]) -> None:
    error = error_of(KafkaError(code), "t")
    assert type(error) is kind
    assert str(error)
