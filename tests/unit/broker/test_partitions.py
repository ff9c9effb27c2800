"""Logs that cannot be opened: each is out of service alone, and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker import housekeeper
from penstock.metadata.assignments import NewTopic
from penstock.metadata.topics import TopicReference
from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode
from tests.unit.broker.in_process import InProcess, eventually, with_broker

if TYPE_CHECKING:
    from collections.abc import Callable


def fail_to_open(client: InProcess, is_bad: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    storage = client.broker.storage
    real = storage.open_log

    def open_log(name: str, *arguments: Any, **options: Any) -> Any:
        if is_bad(name):
            raise StorageError(f"cannot open {name}: No space left on device")
        return real(name, *arguments, **options)

    monkeypatch.setattr(storage, "open_log", open_log)


def refusal(client: InProcess, topic: str, index: int = 0) -> ErrorCode:
    try:
        client.broker.partitions.require(topic, index)
    except ApiError as error:
        return error.code
    return ErrorCode.none


def test_a_log_that_cannot_be_opened_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the topics of one change, and of the partitions of one topic."""

    async def work(client: InProcess) -> None:
        fail_to_open(client, lambda name: name.startswith("bad") or name == "some-1", monkeypatch)
        names = [NewTopic("bad", 2), NewTopic("some", 3), NewTopic("good", 1)]
        with pytest.raises(ApiError, match="No space left"):
            await client.broker.controller.create_topics(names)
        assert [refusal(client, "bad", index) for index in (0, 1)] == [ErrorCode.kafka_storage_error] * 2
        assert [refusal(client, "some", index) for index in (0, 1, 2)] == [
            ErrorCode.none, ErrorCode.kafka_storage_error, ErrorCode.none,
        ]  # fmt: skip
        assert refusal(client, "good") is ErrorCode.none
        await client.broker.controller.create_topics([NewTopic("later")])
        assert refusal(client, "later") is ErrorCode.none, "what failed before fails no later change"

    with_broker(work)


def test_it_is_tried_again_until_it_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeper, "OPEN_AGAIN_S", 0.01)

    async def work(client: InProcess) -> None:
        is_full = True
        fail_to_open(client, lambda name: is_full and name == "t-0", monkeypatch)
        with pytest.raises(ApiError, match="No space left"):
            await client.broker.controller.create_topics([NewTopic("t")])
        assert refusal(client, "t") is ErrorCode.kafka_storage_error
        is_full = False
        await eventually(lambda: refusal(client, "t") is ErrorCode.none)
        assert client.broker.partitions.require("t", 0).is_leader
        assert not client.broker.partitions.failed

    with_broker(work)


def test_a_topic_that_could_not_be_opened_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        fail_to_open(client, lambda name: name == "t-0", monkeypatch)
        controller = client.broker.controller
        with pytest.raises(ApiError, match="No space left"):
            await controller.create_topics([NewTopic("t")])
        await controller.delete_topics([TopicReference("t")])
        assert not client.broker.partitions.failed
        assert refusal(client, "t") is ErrorCode.unknown_topic_or_partition

    with_broker(work)
