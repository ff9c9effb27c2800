"""Publishers and subscribers on real brokers: what the guide promises, one test for each promise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

from penstock import (
    DisconnectedServerError,
    InvalidTopicError,
    MessagesLostError,
    MessageTooLargeError,
    Publisher,
    PublisherFencedError,
    SequenceGapError,
    Subscriber,
    SubscriberFencedError,
)
from penstock.cli.app import run
from tests.support.broker import BrokerProcess
from tests.support.commands import Finished, environment, penstock
from tests.support.topics import admin
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WAIT_S = 10.0 * PATIENCE


def publisher(broker: BrokerProcess, name: str = "p", **options: float) -> Publisher:
    return Publisher(name, broker=broker.bootstrap, **options)


def subscriber(broker: BrokerProcess, name: str, *topics: str, **options: object) -> Subscriber:
    opened = Subscriber(name, broker=broker.bootstrap, **options)  # type: ignore[arg-type]  # timeouts, positions
    for topic in topics:
        opened.subscribe(topic)
    return opened


def texts(opened: Subscriber, count: int) -> list[str]:
    found: list[str] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message.text for message in opened.get_many(count - len(found), timeout=0.2)]
    return found


def create(broker: BrokerProcess, topic: str, partitions: int) -> None:
    client = admin(broker.bootstrap)
    client.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)


def grow(broker: BrokerProcess, topic: str, partitions: int) -> None:
    client = admin(broker.bootstrap)
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(WAIT_S)


def test_everything_after_subscribing_once_and_in_order(shared_broker: BrokerProcess, topic: str) -> None:
    with publisher(shared_broker) as putting:
        putting.put(topic, "before")
        with subscriber(shared_broker, "s-plain", topic) as first:
            putting.put_many(topic, ["a", "b"])
            assert texts(first, 1) == ["a"]
        putting.put(topic, "while nobody was there")
        with subscriber(shared_broker, "s-plain", topic) as second:  # subscribing again changes nothing
            message = second.get(timeout=WAIT_S)
            assert message is not None
            assert (message.text, message.publisher, message.seq) == ("b", "p", 3)
            assert texts(second, 1) == ["while nobody was there"]
            assert second.get(timeout=0) is None
            assert second.topics == (topic,)


def test_a_number_is_stored_once(shared_broker: BrokerProcess, topic: str) -> None:
    with subscriber(shared_broker, "s-numbers", topic) as getting, publisher(shared_broker) as putting:
        first = putting.put(topic, "one", seq=1)
        assert putting.put(topic, "again", seq=1) == first
        with pytest.raises(SequenceGapError, match="expected 2"):
            putting.put(topic, "three", seq=3)
        assert putting.put(topic, "two").seq == 2
        with publisher(shared_broker) as later:
            assert later.put(topic, "one", seq=1) == first
            assert later.put(topic, "two", seq=2).seq == 2
            assert later.put(topic, "three", seq=3).seq == 3
            assert later.last_seq(topic) == 3
            assert later.last_seq("no-such-topic") == 0
        assert texts(getting, 3) == ["one", "two", "three"]
        assert getting.get(timeout=0) is None


def test_the_older_of_two_publishers_is_fenced(shared_broker: BrokerProcess, topic: str) -> None:
    with publisher(shared_broker, "twin") as older:
        older.put(topic, "1")
        with publisher(shared_broker, "twin") as newer:
            with pytest.raises(PublisherFencedError, match="'twin'"):
                older.put(topic, "2")
            assert newer.put(topic, "2").seq == 2
            with pytest.raises(PublisherFencedError):
                older.put(topic, "3")


def test_the_older_of_two_subscribers_is_fenced(shared_broker: BrokerProcess, topic: str) -> None:
    with publisher(shared_broker) as putting, subscriber(shared_broker, "twin", topic) as older:
        putting.put_many(topic, ["1", "2"])
        assert texts(older, 1) == ["1"]
        with subscriber(shared_broker, "twin") as newer:
            with pytest.raises(SubscriberFencedError, match="'twin'"):
                older.get(timeout=WAIT_S)
            with pytest.raises(SubscriberFencedError):
                older.unsubscribe(topic)
            assert texts(newer, 1) == ["2"]
            assert newer.topics == (topic,)


def receive_and_fail(getting: Subscriber) -> None:
    with getting.receive(timeout=WAIT_S) as message:
        assert str(message) == "1"
        raise ZeroDivisionError


def transact_and_fail(getting: Subscriber, target: str) -> None:
    with getting.transaction() as transaction:
        transaction.put(target, "never")
        assert str(transaction.get(timeout=WAIT_S)) == "a"
        raise ZeroDivisionError


def test_what_was_not_processed_comes_again(shared_broker: BrokerProcess, topic: str) -> None:
    with publisher(shared_broker) as putting, subscriber(shared_broker, "s-receive", topic) as getting:
        putting.put_many(topic, ["1", "2"])
        with pytest.raises(ZeroDivisionError):
            receive_and_fail(getting)
        with getting.receive(timeout=WAIT_S) as message:
            assert str(message) == "1"
            with pytest.raises(RuntimeError, match="in the middle"):
                getting.get(timeout=0)
    with subscriber(shared_broker, "s-receive") as getting:
        assert texts(getting, 1) == ["2"]
        with getting.receive(timeout=0) as message:
            assert message is None


def test_an_application_with_positions_of_its_own_is_exact(shared_broker: BrokerProcess, topic: str) -> None:
    stored: dict[tuple[str, int], int] = {}
    getting = subscriber(shared_broker, "s-own", topic, positions=stored)
    with publisher(shared_broker) as putting:
        putting.put_many(topic, ["1", "2", "3"])
        first = getting.get(timeout=WAIT_S)
        assert first is not None
        stored[first.topic, first.partition] = first.position
        second = getting.get(timeout=WAIT_S)  # got, and the application is killed before it stores that
        assert str(second) == "2"
        # The application comes again with what it has stored.
        with subscriber(shared_broker, "s-own", positions=stored) as again:
            message = again.get(timeout=WAIT_S)
            assert str(message) == "2"
            assert message is not None
            stored[message.topic, message.partition] = message.position
    with pytest.raises(SubscriberFencedError):
        getting.close()
    with subscriber(shared_broker, "s-own", positions=stored) as again:
        assert texts(again, 1) == ["3"]


def test_positions_from_before_the_subscription_do_not_count(
    shared_broker: BrokerProcess, topic: str
) -> None:
    with publisher(shared_broker) as putting:
        with subscriber(shared_broker, "s-from", topic) as getting:
            putting.put_many(topic, ["1", "2"])
            getting.unsubscribe(topic)
        putting.put(topic, "while not subscribed")
        with subscriber(shared_broker, "s-from", topic):
            putting.put(topic, "3")
        with subscriber(shared_broker, "s-from", positions={(topic, 0): 1}) as getting:
            assert texts(getting, 1) == ["3"]


def test_a_transaction_happens_whole_or_not_at_all(shared_broker: BrokerProcess, topic: str) -> None:
    source, target = f"{topic}-source", f"{topic}-target"
    with (
        publisher(shared_broker) as putting,
        subscriber(shared_broker, "s-in", source) as getting,
        subscriber(shared_broker, "s-out", target) as result,
    ):
        putting.put_many(source, ["a", "b"])
        with pytest.raises(ZeroDivisionError):
            transact_and_fail(getting, target)
        with getting.transaction() as transaction:
            for _ in range(2):
                transaction.put(target, str(transaction.get(timeout=WAIT_S)).upper(), key="k")
        with getting.transaction() as transaction:
            assert transaction.get(timeout=0) is None
            transaction.put(target, "end")
        assert texts(result, 3) == ["A", "B", "END".lower()]
        assert getting.get(timeout=0) is None
    with subscriber(shared_broker, "s-in") as again:
        assert again.get(timeout=0) is None


def test_unsubscribing_while_messages_wait(shared_broker: BrokerProcess, topic: str) -> None:
    leave, stay = f"{topic}-leave", f"{topic}-stay"
    with (
        publisher(shared_broker) as putting,
        subscriber(shared_broker, "s-unsub", leave, stay) as getting,
    ):
        putting.put_many(leave, [str(number) for number in range(10)])
        putting.put(stay, "x")
        assert len(getting.get_many(1, timeout=WAIT_S)) == 1
        getting.unsubscribe(leave)
        getting.unsubscribe(leave)
        assert {message.topic for message in getting.get_many(10, timeout=1)} <= {stay}
        getting.subscribe(leave)
        putting.put(leave, "new")
        assert texts(getting, 1) == ["new"]
    with subscriber(shared_broker, "s-unsub") as getting:
        assert getting.topics == (leave, stay)


def test_a_publisher_keeps_its_order_in_many_partitions(shared_broker: BrokerProcess, topic: str) -> None:
    create(shared_broker, topic, 4)
    names = [f"p{number}" for number in range(6)]
    with subscriber(shared_broker, "s-wide", topic) as getting:
        places = set()
        for name in names:
            with publisher(shared_broker, name) as putting:
                places |= {
                    put.partition for put in putting.put_many(topic, [f"{name}-{n}" for n in range(5)])
                }
        assert len(places) > 1
        grow(shared_broker, topic, 7)
        for name in names:  # also when the number of partitions changes
            with publisher(shared_broker, name) as putting:
                assert putting.put(topic, f"{name}-5").seq == 6
        found = texts(getting, 36)
    for name in names:
        assert [text for text in found if text.startswith(name)] == [f"{name}-{n}" for n in range(6)]


def test_partitions_that_come_later_are_read_from_their_beginning(
    shared_broker: BrokerProcess, topic: str
) -> None:
    create(shared_broker, topic, 1)
    with subscriber(shared_broker, "s-grows", topic):
        pass
    grow(shared_broker, topic, 8)
    names = [f"p{number}" for number in range(8)]
    for name in names:
        with publisher(shared_broker, name) as putting:
            putting.put(topic, name)
    with subscriber(shared_broker, "s-grows") as getting:
        assert sorted(texts(getting, 8)) == names


def test_a_small_topic_does_not_wait_for_a_big_one(shared_broker: BrokerProcess, topic: str) -> None:
    big, small = f"{topic}-big", f"{topic}-small"
    with publisher(shared_broker) as putting, subscriber(shared_broker, "s-fair", big, small) as getting:
        for _ in range(10):  # each is more than half of what one fetch brings
            putting.put_many(big, ["x" * 1_000] * 700)
        putting.put(small, small)
        found = []
        while small not in found and len(found) < 7_001:
            found += [message.topic for message in getting.get_many(100, timeout=WAIT_S)]
        # Some 2,500 are on their way at most, and more come while a busy machine fetches.
        assert len(found) < 6_000


def test_messages_that_were_removed_are_reported_once(shared_broker: BrokerProcess, topic: str) -> None:
    with publisher(shared_broker) as putting, subscriber(shared_broker, "s-lost", topic):
        putting.put_many(topic, [str(number) for number in range(5)])
    client = admin(shared_broker.bootstrap)
    (removal,) = client.delete_records([TopicPartition(topic, 0, 3)]).values()
    removal.result(WAIT_S)
    with subscriber(shared_broker, "s-lost") as getting:
        with pytest.raises(MessagesLostError, match="offset 0 to 2") as caught:
            getting.get(timeout=WAIT_S)
        assert (caught.value.topic, caught.value.partition, caught.value.first, caught.value.next) == (
            topic,
            0,
            0,
            3,
        )
    with subscriber(shared_broker, "s-lost") as getting:
        assert texts(getting, 2) == ["3", "4"]


def test_errors_say_what_is_wrong(shared_broker: BrokerProcess, topic: str) -> None:
    with publisher(shared_broker) as putting:
        with pytest.raises(InvalidTopicError, match="'no spaces'"):
            putting.put("no spaces", "x")
        with pytest.raises(MessageTooLargeError):
            putting.put(topic, b"x" * 20_000_000)
        assert putting.put(topic, "small").seq == 1
    with pytest.raises(ValueError, match="printable"):
        Publisher("", broker=shared_broker.bootstrap)
    with pytest.raises(ValueError, match="HOST:PORT"):
        Subscriber("s", broker="http://127.0.0.1:8080")
    with pytest.raises(ValueError, match="position"):
        Subscriber("s", broker=shared_broker.bootstrap, positions={("t", 0): -1})


def test_nobody_there() -> None:
    with pytest.raises(DisconnectedServerError, match="refused"):
        Publisher("p", broker="127.0.0.1:1", timeout_s=0.5)
    with pytest.raises(DisconnectedServerError, match="refused"):
        Subscriber("s", broker="127.0.0.1:1", timeout_s=0.5)


def test_a_broker_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    expected = [str(number) for number in range(150)]
    with BrokerProcess(tmp_path) as broker, closing(subscriber(broker, "s", "t")) as getting:
        failures: list[BaseException] = []

        def put_all() -> None:
            try:
                with publisher(broker) as putting:
                    for number, text in enumerate(expected, 1):
                        assert putting.put("t", text).seq == number
            except BaseException as error:
                failures.append(error)
                raise

        thread = threading.Thread(target=put_all)
        thread.start()
        found: list[str] = []
        for share in (30, 90):
            found += texts(getting, share - len(found))
            broker.restart(clean=False)
        found += texts(getting, len(expected) - len(found))
        thread.join(WAIT_S)
        assert failures == []
        assert found == expected
        assert getting.get(timeout=0) is None


def test_a_publisher_that_is_killed_goes_on_by_its_numbers(shared_broker: BrokerProcess, topic: str) -> None:
    script = (
        "import sys; from penstock import Publisher\n"
        f"publisher = Publisher('killed', broker={shared_broker.bootstrap!r})\n"
        f"for number in range(max(1, publisher.last_seq({topic!r}) - 3), 61):\n"
        f"    print(publisher.put({topic!r}, str(number), seq=number).seq, flush=True)\n"
    )
    with subscriber(shared_broker, "s-kills", topic) as getting:
        for lines in (15, 25, None):
            with subprocess.Popen(
                [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment(), text=True
            ) as process:
                assert process.stdout is not None
                for count, _ in enumerate(process.stdout, 1):
                    if count == lines:
                        process.kill()
                        break
        assert texts(getting, 60) == [str(number) for number in range(1, 61)]
        assert getting.get(timeout=0) is None


# The commands


@pytest.fixture
def call(
    shared_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    """Runs a command in this process, which is much faster than in one of its own."""
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", shared_broker.bootstrap)

    def called(*arguments: str) -> Finished:
        code = run(arguments)
        return Finished(code, *capfd.readouterr())

    return called


def test_commands(call: Callable[..., Finished], topic: str) -> None:
    assert call("sub", topic, "--id", "s-commands").lines == []
    assert call("put", topic, "hello", "--id", "p-commands").lines == ["1 0"]
    assert call("put", topic, "hello again", "--id", "p-commands", "--seq", "2").lines == ["2 2"]
    assert call("put", topic, "hello again", "--id", "p-commands", "--seq", "2").lines == ["2 2"]
    assert "expected 3" in call("put", topic, "x", "--id", "p-commands", "--seq", "9").complaint
    assert call("get", "--id", "s-commands").lines == ["hello"]
    (line,) = call("get", "--id", "s-commands", "--json").lines
    assert json.loads(line) == {"topic": topic, "offset": 2, "value": "hello again"}
    assert call("get", "--id", "s-commands", "--wait", "0").lines == []
    assert call("unsub", topic, "--id", "s-commands").lines == []
    assert call("put", topic, "unheard", "--id", "ä p/1").lines == ["1 4"]
    assert call("get", "--id", "s-commands", "-n", "5", "--wait", "0").lines == []
    assert "is invalid" in call("sub", "a b", "--id", "s-commands").complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ["put", "news", "x", "--id", ""],
        ["put", "news", "x"],
        ["put", "news", "x", "--id", "p", "--seq", "0"],
        ["get", "--id", "s", "-n", "0"],
        ["get", "--id", "s", "--wait", "-1"],
        ["sub", "", "--id", "s"],
    ],
)
def test_wrong_usage(call: Callable[..., Finished], arguments: list[str]) -> None:
    assert call(*arguments).code == 2


def test_a_message_that_could_not_be_printed_comes_again(shared_broker: BrokerProcess, topic: str) -> None:
    with subscriber(shared_broker, "s-full", topic), publisher(shared_broker) as putting:
        putting.put(topic, "x")
    command = [sys.executable, "-m", "penstock", "get", "--id", "s-full"]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment(shared_broker))
    assert result.returncode == 1
    assert b"No space left" in result.stderr
    assert penstock("get", "--id", "s-full", broker=shared_broker).lines == ["x"]


def test_an_interrupt_ends_a_get_that_waits(shared_broker: BrokerProcess, topic: str) -> None:
    subscriber(shared_broker, "s-int", topic).close()
    command = [sys.executable, "-m", "penstock", "get", "--id", "s-int", "--wait", "600"]
    with subprocess.Popen(command, env=environment(shared_broker), stderr=subprocess.PIPE) as process:
        wait_until(lambda: threads_of(process.pid) > 4, "the clients of the command")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 1


def threads_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))
