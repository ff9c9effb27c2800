from __future__ import annotations

import asyncio

import pytest

from penstock.broker.verifications import Verifications
from penstock.groups.messages import Producer
from penstock.types import ApiError, ErrorCode

OLD, NEW = Producer(7, 0), Producer(7, 1)


class Coordinator:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    async def ask(self) -> ErrorCode:
        return await self.answer


class Line:
    """What became of the batches of one producer, in the order in which they were told."""

    def __init__(self, verifications: Verifications, producer: Producer) -> None:
        self._verifications, self._producer = verifications, producer
        self.coordinator = Coordinator()
        self.told: list[tuple[str, str]] = []
        self._questions: list[asyncio.Task[None]] = []

    def join(self, name: str) -> None:
        def when_verified(error: ApiError | None) -> None:
            self.told.append((name, "none" if error is None else error.code.name))

        if self._verifications.join(self._producer, when_verified):
            question = self._verifications.run(self._producer, self.coordinator.ask)
            self._questions.append(asyncio.get_running_loop().create_task(question))

    async def answered(self, code: ErrorCode) -> None:
        (question,) = self._questions
        self.coordinator.answer.set_result(code)
        await question


def test_who_comes_meanwhile_waits_in_line() -> None:
    async def scenario() -> None:
        line = Line(Verifications(), NEW)
        for name in ("first", "second"):
            line.join(name)
        await line.answered(ErrorCode.none)
        assert line.told == [("first", "none"), ("second", "none")]

    asyncio.run(scenario())


def test_a_marker_voids_the_answer_that_is_on_its_way() -> None:
    async def scenario() -> None:
        verifications = Verifications()
        line = Line(verifications, NEW)
        line.join("late")
        verifications.end(NEW.id)
        await line.answered(ErrorCode.none)
        assert line.told == [("late", "invalid_txn_state")]

    asyncio.run(scenario())


def test_an_owner_does_not_wait_for_the_one_that_it_fenced() -> None:
    async def scenario() -> None:
        verifications = Verifications()
        old, new = Line(verifications, OLD), Line(verifications, NEW)
        old.join("of the old one")
        new.join("of the new one")
        await old.answered(ErrorCode.producer_fenced)
        await new.answered(ErrorCode.none)
        assert old.told == [("of the old one", "producer_fenced")]
        assert new.told == [("of the new one", "none")]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_question_that_nothing_waits_behind(is_ended: bool) -> None:
    async def scenario() -> None:
        verifications, coordinator = Verifications(), Coordinator()
        question = asyncio.create_task(verifications.verified(NEW.id, coordinator.ask))
        await asyncio.sleep(0)  # it has begun to ask
        if is_ended:
            verifications.end(NEW.id)
        coordinator.answer.set_result(ErrorCode.none)
        await question

    if is_ended:
        with pytest.raises(ApiError):
            asyncio.run(scenario())
    else:
        asyncio.run(scenario())
