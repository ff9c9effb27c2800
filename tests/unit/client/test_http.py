"""The library over HTTP against a gateway that fails in every way a gateway can."""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import threading
from collections.abc import Iterator

import pytest

from penstock import (
    AsyncConsumer,
    AsyncProducer,
    ClosedError,
    Consumer,
    ConsumerNotFoundError,
    Delivered,
    DisconnectedServerError,
    InvalidMessageError,
    InvalidTopicError,
    MessageTooLargeError,
    NoMessageError,
    NotAuthorizedError,
    PenstockError,
    Producer,
    ServerError,
    TopicNotFoundError,
)
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.unit.client.fake_gateway import Answer, FakeGateway, lost

SOON_S = 0.3
"""A time limit for what shall run into it."""


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway() as fake:
        yield fake


def paths(gateway: FakeGateway) -> list[str]:
    return [path for path, _, _ in gateway.requests]


def test_messages_in_order(gateway: FakeGateway) -> None:
    with Producer(["a", "b"], gateway.url) as producer, Consumer(["a", "b"], gateway.url) as consumer:
        assert producer.send("a", "one") == Delivered("a", 0, 0)
        assert producer.send("a", b"two") == Delivered("a", 0, 1)
        assert producer.send("b", "drei") == Delivered("b", 0, 0)
        assert consumer.size("a") == 2
        got = []
        while consumer.has_next("a"):
            got.append(consumer.get_next("a"))
        assert got == ["one", "two"]
        with pytest.raises(NoMessageError, match="'a'"):
            consumer.get_next("a")
        assert consumer.get_next("b") == "drei"


def test_one_connection_is_kept(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer:
        for _ in range(20):
            producer.send("a", "x")
    assert gateway.connections == 1


def test_what_is_known_to_be_there_is_not_asked_for_again(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer, Consumer("a", gateway.url) as consumer:
        for _ in range(3):
            producer.send("a", "x")
        while consumer.has_next("a"):
            consumer.get_next("a")
    assert paths(gateway).count("/size") == 2


def test_has_next_believes_the_gateway_and_not_its_memory(gateway: FakeGateway) -> None:
    """Somebody else with the same id may have got what was there."""
    with Producer("a", gateway.url) as producer, Consumer("a", gateway.url) as consumer:
        producer.send("a", "x")
        assert consumer.has_next("a")
        with Consumer("a", gateway.url, id=consumer.id) as other:
            other.get_next("a")
        with pytest.raises(NoMessageError):
            consumer.get_next("a")
        assert not consumer.has_next("a")


def test_a_lost_answer_neither_loses_nor_doubles_a_sent_message(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer:
        producer.send("a", "first")
        gateway.faults += [lost, lost, (503, {"message": "an election"}), lost]
        assert producer.send("a", "second") == Delivered("a", 0, 1)
        assert producer.send("a", "third") == Delivered("a", 0, 2)
    assert gateway.topics["a"] == ["first", "second", "third"]


def test_a_lost_answer_neither_loses_nor_doubles_a_message_that_is_got(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer, Consumer("a", gateway.url) as consumer:
        for text in ("first", "second", "third"):
            producer.send("a", text)
        gateway.faults += [lost, (502, b"<html>"), lost]
        assert [consumer.get_next("a") for _ in range(3)] == ["first", "second", "third"]


def test_an_answer_that_ends_in_its_middle_is_asked_for_again(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer, Consumer("a", gateway.url) as consumer:
        for text in ("first", "second"):
            gateway.cuts_off = 2
            producer.send("a", text)
        gateway.cuts_off = 2
        assert [consumer.get_next("a") for _ in range(2)] == ["first", "second"]
    assert gateway.topics["a"] == ["first", "second"]


@pytest.mark.parametrize("says_last", [False, True], ids=["", "of the last answer"])
def test_a_connection_that_broke_in_an_answer_is_closed(gateway: FakeGateway, says_last: bool) -> None:
    """At once, and not when its garbage is collected."""
    gateway.says_last = says_last
    gc.disable()
    try:
        before = open_files()
        with Producer("a", gateway.url) as producer:
            gateway.cuts_off = 3
            producer.send("a", "first")
        wait_until(lambda: open_files() <= before, "all connections are closed")
    finally:
        gc.enable()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_message_of_a_call_that_failed_is_got_by_the_next(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer, Consumer("a", gateway.url, timeout_s=SOON_S) as consumer:
        for text in ("first", "second"):
            producer.send("a", text)
        gateway.faults += [lost] * 50
        with pytest.raises(DisconnectedServerError):
            consumer.get_next("a")
        gateway.faults.clear()
        assert [consumer.get_next("a") for _ in range(2)] == ["first", "second"]


def test_a_message_that_retention_removed_is_passed_over(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer, Consumer("a", gateway.url) as consumer:
        producer.send("a", "kept")
        gateway.faults.append((410, {"message": "it is gone"}))
        assert consumer.get_next("a") == "kept"


def test_a_connection_that_was_closed_while_idle(gateway: FakeGateway) -> None:
    gateway.hangs_up = True
    with Producer("a", gateway.url) as producer:
        for text in ("first", "second", "third"):
            producer.send("a", text)
    assert gateway.topics["a"] == ["first", "second", "third"]
    assert gateway.connections == 4


def test_nobody_there() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(DisconnectedServerError, match="refused"):
        Producer("a", url, timeout_s=SOON_S)
    with pytest.raises(DisconnectedServerError, match="refused"):
        Consumer("a", url, timeout_s=SOON_S)


def test_a_gateway_that_says_nothing(gateway: FakeGateway) -> None:
    release = threading.Event()

    def silent(_: Answer) -> None:
        release.wait(30)

    gateway.faults.append(silent)
    try:
        with pytest.raises(DisconnectedServerError, match="timed out"):
            Producer("a", gateway.url, timeout_s=SOON_S)
    finally:
        release.set()


def test_a_refusal_that_lasts_is_told_in_the_gateways_words(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url, timeout_s=SOON_S) as producer:
        gateway.faults += [(503, {"message": "too few replicas"})] * 50
        with pytest.raises(DisconnectedServerError, match="too few replicas"):
            producer.send("a", "x")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((401, {"message": "who are you"}), NotAuthorizedError),
        ((403, {"message": "not you"}), NotAuthorizedError),
        ((413, {"message": "too large"}), MessageTooLargeError),
        ((400, {"message": "what"}), ServerError),
        ((500, b"Internal Server Error"), ServerError),
        ((200, b"<html>"), ServerError),
        ((200, b"[]"), ServerError),
        ((200, {"partition": 0}), ServerError),
        ((200, {"partition": True, "offset": "7"}), ServerError),
        ((302, b""), ServerError),
    ],
)
def test_refusals_of_send(gateway: FakeGateway, answer: Answer, error: type[PenstockError]) -> None:
    with Producer("a", gateway.url) as producer:
        gateway.faults.append(answer)
        with pytest.raises(error):
            producer.send("a", "x")
        assert producer.send("a", "y").offset == 0


def test_a_topic_that_was_deleted_is_made_again_by_send(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer:
        producer.send("a", "x")
        gateway.topics.clear()
        gateway.owners.clear()
        assert producer.send("a", "y") == Delivered("a", 0, 0)
    assert gateway.topics == {"a": ["y"]}


def test_names_that_are_refused(gateway: FakeGateway) -> None:
    gateway.faults.append((400, {"message": "not a name"}))
    with pytest.raises(InvalidTopicError, match="not a name"):
        Consumer("no name", gateway.url)


def test_ids(gateway: FakeGateway) -> None:
    with Producer(["a", "b"], gateway.url) as producer, Consumer(["a", "b"], gateway.url) as first:
        for text in ("1", "2"):
            producer.send("a", text)
            producer.send("b", text)
        assert first.ids == {"a": 3, "b": 4}
        with pytest.raises(ValueError, match="ids"):
            _ = first.id
        assert first.get_next("a") == first.get_next("b") == "1"
        with Consumer(["b", "a"], gateway.url, id=first.ids) as second:
            assert second.get_next("a") == second.get_next("b") == "2"
        with Consumer("a", gateway.url, id=first.ids["a"]) as third:
            assert third.id == 3
            assert third.size("a") == 0


def test_ids_that_are_none(gateway: FakeGateway) -> None:
    with Producer(["a", "b"], gateway.url), Consumer("a", gateway.url) as consumer:
        with pytest.raises(ConsumerNotFoundError, match="99"):
            Consumer("a", gateway.url, id=99)
        with pytest.raises(ConsumerNotFoundError, match="not registered for b"):
            Consumer("b", gateway.url, id=consumer.id)
        with pytest.raises(ValueError, match="each topic"):
            Consumer(["a", "b"], gateway.url, id=consumer.id)
        with pytest.raises(ValueError, match="'b'"):
            Consumer(["a", "b"], gateway.url, id={"a": consumer.id})
        gateway.topics.pop("a")
        with pytest.raises(TopicNotFoundError):
            consumer.get_next("a")


def test_a_token_that_may_not_read(gateway: FakeGateway) -> None:
    with Consumer("a", gateway.url, token="t0ken") as consumer:
        gateway.faults += [(403, {"message": "not you"})] * 2
        with pytest.raises(NotAuthorizedError, match="not you"):
            consumer.get_next("a")
    assert {headers["Authorization"] for _, _, headers in gateway.requests} == {"Bearer t0ken"}


@pytest.mark.parametrize("token", ["", "two words", "line\n", "ü"])
def test_tokens_that_are_none(gateway: FakeGateway, token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        Producer("a", gateway.url, token=token)


@pytest.mark.parametrize("url", ["http://", "http://host:0", "http://host:x", "http://a:1?b", "https://u@h"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)port"):
        Producer("a", url)


def test_a_prefix_of_a_proxy(gateway: FakeGateway) -> None:
    with pytest.raises(TopicNotFoundError):
        Producer("a", f"{gateway.url}/penstock/")
    assert paths(gateway) == ["/penstock/producer/register"]


def test_messages_that_are_no_text(gateway: FakeGateway) -> None:
    with Producer("a", gateway.url) as producer, Consumer("a", gateway.url) as consumer:
        with pytest.raises(InvalidMessageError, match="UTF-8"):
            producer.send("a", b"\xff")
        with pytest.raises(InvalidMessageError, match="keys"):
            producer.send("a", "x", key="k")
        encoded = base64.b64encode(b"\xff\x00").decode()
        gateway.topics["a"] += [
            {"message": encoded, "encoding": "base64"},
            {"message": None},
            {"message": "?", "encoding": "base64"},
        ]
        assert consumer.get_next("a").encode("utf-8", "surrogateescape") == b"\xff\x00"
        assert consumer.get_next("a") == ""
        with pytest.raises(ServerError, match="base64"):
            consumer.get_next("a")


def test_use_after_close(gateway: FakeGateway) -> None:
    producer, consumer = Producer("a", gateway.url), Consumer("a", gateway.url)
    number = consumer.id
    for client in (producer, consumer):
        client.close()
        client.close()
    with pytest.raises(ClosedError):
        producer.send("a", "x")
    with pytest.raises(ClosedError):
        consumer.has_next("a")
    assert consumer.id == number


def test_threads_share_a_producer_and_a_consumer(gateway: FakeGateway) -> None:
    got: list[str] = []
    with Producer("a", gateway.url) as producer, Consumer("a", gateway.url) as consumer:

        def work(number: int) -> None:
            for index in range(10):
                producer.send("a", f"{number}-{index}")
            got.extend(consumer.get_next("a") for _ in range(10))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(got) == sorted(f"{number}-{index}" for number in range(4) for index in range(10))


def test_coroutines(gateway: FakeGateway) -> None:
    async def run() -> None:
        async with AsyncProducer("a", gateway.url) as producer, AsyncConsumer("a", gateway.url) as consumer:
            sent = await asyncio.gather(*(producer.send("a", str(number)) for number in range(50)))
            assert sorted(delivered.offset for delivered in sent) == list(range(50))
            got = []
            while await consumer.has_next("a"):
                got.append(await consumer.get_next("a"))
            assert sorted(got, key=int) == [str(number) for number in range(50)]
            assert await consumer.size("a") == 0
            with pytest.raises(NoMessageError):
                await consumer.get_next("a")
            await producer.send("a", "more")
            async with AsyncConsumer("a", gateway.url, id=consumer.id) as other:
                assert await other.get_next("a") == "more"
            with pytest.raises(TopicNotFoundError):
                await producer.send("b", "x")
        for call in (producer.send("a", "x"), consumer.size("a")):
            with pytest.raises(ClosedError):
                await call

    asyncio.run(run())


def test_coroutines_open_by_themselves_and_again_after_a_failure(gateway: FakeGateway) -> None:
    async def run() -> None:
        gateway.faults.append((401, {"message": "not yet"}))
        producer, consumer = AsyncProducer("a", gateway.url), AsyncConsumer("a", gateway.url)
        with pytest.raises(ClosedError):
            _ = consumer.id
        with pytest.raises(NotAuthorizedError):
            await producer.send("a", "x")
        await asyncio.gather(*(producer.send("a", "x") for _ in range(5)))
        assert await consumer.size("a") == 5
        assert consumer.id == 2
        await producer.close()
        await consumer.close()
        await AsyncProducer("a", gateway.url).close()

    asyncio.run(run())
    assert paths(gateway).count("/producer/register") == 2


async def cancelled_get_next(gateway: FakeGateway, consumer: AsyncConsumer) -> threading.Event:
    """A `get_next` that is cancelled while the gateway works on it; it answers when the event is set."""
    release, asked = threading.Event(), len(gateway.requests)

    def slow(answer: Answer) -> Answer:
        release.wait(30)
        return answer

    gateway.faults.append(slow)
    task = asyncio.create_task(consumer.get_next("a"))
    await asyncio.to_thread(wait_until, lambda: len(gateway.requests) > asked, "the request")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return release


def test_a_cancelled_get_next_loses_nothing(gateway: FakeGateway) -> None:
    async def run() -> None:
        async with AsyncProducer("a", gateway.url) as producer, AsyncConsumer("a", gateway.url) as consumer:
            for text in ("first", "second", "third"):
                await producer.send("a", text)
            (await cancelled_get_next(gateway, consumer)).set()
            assert await consumer.get_next("a") == "first"
            (await cancelled_get_next(gateway, consumer)).set()
            assert await consumer.size("a") == 2
            assert await consumer.get_next("a") == "second"
            (await cancelled_get_next(gateway, consumer)).set()
            assert await consumer.has_next("a")
            assert await consumer.get_next("a") == "third"
            assert not await consumer.has_next("a")

    asyncio.run(run())


def test_no_message_for_a_cancelled_call_is_no_answer_for_the_next(gateway: FakeGateway) -> None:
    async def run() -> None:
        async with AsyncProducer("a", gateway.url) as producer, AsyncConsumer("a", gateway.url) as consumer:
            release = await cancelled_get_next(gateway, consumer)
            await producer.send("a", "since")
            release.set()
            assert await consumer.get_next("a") == "since"

    asyncio.run(run())
