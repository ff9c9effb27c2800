from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.broker.verifications import Verifications
from penstock.groups.messages import Producer
from penstock.types import ApiError, ErrorCode

OWNER = Producer(7, 0)


class Question:
    """To a coordinator that answers when it is told to."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> ErrorCode:
        return await self.answer


def outcome_of(task: asyncio.Task[None]) -> ErrorCode:
    error = task.exception()
    assert error is None or isinstance(error, ApiError)
    return ErrorCode.none if error is None else error.code


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(limited())


def test_a_marker_voids_every_question_of_its_producer_whichever_is_answered_first() -> None:
    async def work() -> None:
        verifications = Verifications()
        questions = [Question(), Question()]
        first, second = [
            asyncio.create_task(verifications.verified(OWNER.id, question)) for question in questions
        ]
        await asyncio.sleep(0)
        questions[1].answer.set_result(ErrorCode.none)
        await asyncio.wait([second])
        verifications.end(OWNER.id)
        questions[0].answer.set_result(ErrorCode.none)
        await asyncio.wait([first])
        assert [outcome_of(first), outcome_of(second)] == [ErrorCode.invalid_txn_state, ErrorCode.none]

    run(work)


def test_an_answer_of_an_earlier_leader_epoch_is_worth_nothing() -> None:
    async def work() -> None:
        verifications = Verifications()
        in_line, alone = Question(), Question()
        told: list[ApiError | None] = []
        assert verifications.join(OWNER, told.append)
        tasks = [
            asyncio.create_task(verifications.run(OWNER, in_line)),
            asyncio.create_task(verifications.verified(OWNER.id, alone)),
        ]
        await asyncio.sleep(0)
        verifications.resign()
        in_line.answer.set_result(ErrorCode.none)
        alone.answer.set_result(ErrorCode.none)
        await asyncio.wait(tasks)
        assert [error.code for error in told if error is not None] == [ErrorCode.not_leader_or_follower]
        assert outcome_of(tasks[1]) is ErrorCode.not_coordinator

    run(work)


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.producer_fenced])
def test_who_waits_in_line_gets_the_same_answer(code: ErrorCode) -> None:
    async def work() -> None:
        verifications, question = Verifications(), Question()
        told: list[ApiError | None] = []
        assert verifications.join(OWNER, told.append)
        assert not verifications.join(OWNER, told.append)
        task = asyncio.create_task(verifications.run(OWNER, question))
        question.answer.set_result(code)
        await asyncio.wait([task])
        assert [ErrorCode.none if error is None else error.code for error in told] == [code, code]
        assert verifications.join(OWNER, told.append), "nobody joins a question that was answered"

    run(work)


def test_an_owner_does_not_wait_for_the_one_that_it_fenced() -> None:
    async def work() -> None:
        verifications = Verifications()
        questions = {OWNER: Question(), Producer(OWNER.id, OWNER.epoch + 1): Question()}
        told: dict[int, list[ApiError | None]] = {each.epoch: [] for each in questions}
        for each in questions:
            assert verifications.join(each, told[each.epoch].append)
        tasks = [asyncio.create_task(verifications.run(each, ask)) for each, ask in questions.items()]
        old, new = questions.values()
        old.answer.set_result(ErrorCode.producer_fenced)
        new.answer.set_result(ErrorCode.none)
        await asyncio.wait(tasks)
        (refused,), (accepted,) = told.values()
        assert refused is not None
        assert refused.code is ErrorCode.producer_fenced
        assert accepted is None

    run(work)


@pytest.mark.parametrize("ending", ["fault", "cancelled"])
def test_who_waits_is_told_also_when_asking_fails(ending: str) -> None:
    async def work() -> None:
        verifications, question = Verifications(), Question()
        told: list[ApiError | None] = []
        assert verifications.join(OWNER, told.append)
        asking = asyncio.create_task(verifications.run(OWNER, question))
        assert not verifications.join(OWNER, told.append)
        await asyncio.sleep(0)
        if ending == "fault":
            question.answer.set_exception(RuntimeError("a fault"))
        else:
            asking.cancel()
        await asyncio.wait([asking])
        assert [error and error.code for error in told] == [ErrorCode.coordinator_not_available] * 2
        assert verifications.join(OWNER, told.append), "the next one asks anew"

    run(work)
