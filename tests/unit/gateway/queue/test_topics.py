"""What the gateway knows of topics, and when it has to ask again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.gateway.kafka.errors import KafkaUnavailableError, UnknownTopicError
from penstock.gateway.queue.topics import Topics


class FakeAdmin:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.questions: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()

    async def identify(self, topic: str) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.questions.put_nowait(answer)
        return await answer


def topics_of(admin: FakeAdmin) -> Topics:
    reader = SimpleNamespace(forget=lambda _topic: None)
    return Topics(SimpleNamespace(admin=admin, reader=reader), 10)  # type: ignore[arg-type]


def test_an_answer_from_before_the_topic_was_forgotten_does_not_count() -> None:
    async def run() -> None:
        admin = FakeAdmin()
        topics = topics_of(admin)
        early = asyncio.create_task(topics.get("t"))
        first = await admin.questions.get()
        topics.forget("t")  # it was created meanwhile
        late = asyncio.create_task(topics.get("t"))
        second = await admin.questions.get()
        second.set_result("new")
        assert await late == "new"
        first.set_exception(UnknownTopicError("t"))
        with pytest.raises(UnknownTopicError):
            await early
        assert await topics.get("t") == "new"
        assert admin.questions.empty()

    asyncio.run(run())


def test_all_who_ask_at_once_get_one_answer() -> None:
    async def run() -> None:
        admin = FakeAdmin()
        topics = topics_of(admin)
        both = [asyncio.create_task(topics.get("t")) for _ in range(2)]
        question = await admin.questions.get()
        question.set_exception(KafkaUnavailableError("no broker"))
        for each in both:
            with pytest.raises(KafkaUnavailableError):
                await each
        again = asyncio.create_task(topics.get("t"))
        (await admin.questions.get()).set_result("there")
        assert await again == "there"

    asyncio.run(run())
