"""The client library while brokers, gateways and clients are killed: nothing is lost, nothing comes twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from penstock import (
    Consumer,
    Delivered,
    DisconnectedServerError,
    InsufficientReplicasError,
    NoMessageError,
    Producer,
)
from tests.support.commands import environment
from tests.support.gateway import GatewayProcess
from tests.support.losing_proxy import LosingProxy
from tests.support.topics import create_topic
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.broker import BrokerProcess

TOPIC = "faults"
CRASHES = 4
HASTY_S = 3.0 * PATIENCE
PATIENT_S = 60.0 * PATIENCE


@pytest.fixture
def mortal_gateway(bootstrap: str, tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway of this test alone, which may be killed; its broker is not."""
    with GatewayProcess(tmp_path, bootstrap) as process:
        yield process


@pytest.fixture(params=["kafka", "http"])
def address(request: pytest.FixtureRequest, broker: BrokerProcess, tmp_path: Path) -> Iterator[str]:
    """Of a broker of this test alone, or of a gateway in front of it."""
    if request.param == "kafka":
        yield broker.bootstrap
        return
    with GatewayProcess(tmp_path, broker.bootstrap) as gateway:
        yield gateway.url


@contextmanager
def working(work: Callable[[threading.Event], None]) -> Iterator[list[BaseException]]:
    """`work` in a thread, told to stop at the end; what it fails with is in the list, and raised then."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work(stop)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def test_a_broker_that_is_killed_again_and_again(address: str, broker: BrokerProcess) -> None:
    sent: list[Delivered] = []
    got: list[str] = []

    def send(stop: threading.Event) -> None:
        with Producer(TOPIC, address, timeout_s=PATIENT_S) as producer:
            while not stop.is_set():
                sent.append(producer.send(TOPIC, str(len(sent))))

    def get(stop: threading.Event) -> None:
        with Consumer(TOPIC, address, timeout_s=PATIENT_S) as consumer:
            assert consumer.ids
            while not stop.is_set():
                if consumer.has_next(TOPIC):
                    got.append(consumer.get_next(TOPIC))
            while consumer.has_next(TOPIC):
                got.append(consumer.get_next(TOPIC))

    # The reader ends after the writer, and so has seen everything.
    with working(get) as not_got, working(send) as not_sent:

        def wait_for_progress() -> None:
            before, read = len(sent), len(got)
            wait_until(
                lambda: not_got or not_sent or (len(sent) > before and len(got) > read),
                "both go on",
                timeout_s=60,
            )

        for _ in range(CRASHES):
            wait_for_progress()
            broker.restart(clean=False)
        wait_for_progress()
    assert [delivered.offset for delivered in sent] == list(range(len(sent)))
    assert got == [str(number) for number in range(len(sent))]


def test_a_broker_that_is_away_between_two_messages(broker: BrokerProcess) -> None:
    with (
        Producer(TOPIC, broker.bootstrap, timeout_s=HASTY_S) as hasty,
        Producer(TOPIC, broker.bootstrap, timeout_s=PATIENT_S) as patient,
        Consumer(TOPIC, broker.bootstrap, timeout_s=PATIENT_S) as consumer,
    ):
        hasty.send(TOPIC, "first")
        assert consumer.get_next(TOPIC) == "first"
        number = consumer.id
        broker.kill()
        with pytest.raises(DisconnectedServerError, match="Connection refused"):
            hasty.send(TOPIC, "nobody hears this")
        broker.start()
        patient.send(TOPIC, "second")
        with Consumer(TOPIC, broker.bootstrap, id=number) as later:
            assert later.get_next(TOPIC) == "second"
        # The one that gave up is of use again, and has not kept its message for later.
        hasty.send(TOPIC, "third")
        assert consumer.get_next(TOPIC) == "second"
        assert consumer.get_next(TOPIC) == "third"


def test_too_few_replicas_are_told_from_no_answer(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, TOPIC, min_insync_replicas="2")
    with Producer(TOPIC, broker.bootstrap, timeout_s=1) as producer:
        with pytest.raises(InsufficientReplicasError):
            producer.send(TOPIC, "x")
        broker.kill()
        with pytest.raises(DisconnectedServerError):
            producer.send(TOPIC, "x")


@contextmanager
def restarted(gateway: GatewayProcess) -> Iterator[Callable[[], None]]:
    """A function that kills the gateway; it is started again at once, by another thread."""
    killed = threading.Event()

    def start(stop: threading.Event) -> None:
        wait_until(lambda: killed.is_set() or stop.is_set(), "the kill", timeout_s=60)
        if killed.is_set():
            gateway.start()

    def kill() -> None:
        gateway.kill()
        killed.set()

    with working(start):
        yield kill


def test_a_gateway_killed_between_consume_and_answer(mortal_gateway: GatewayProcess, topic: str) -> None:
    with LosingProxy(mortal_gateway.port) as proxy:
        with (
            Producer(topic, mortal_gateway.url, timeout_s=PATIENT_S) as producer,
            Consumer(topic, proxy.url, timeout_s=PATIENT_S) as consumer,
        ):
            for number in range(6):
                producer.send(topic, str(number))
            assert consumer.get_next(topic) == "0"
            with restarted(mortal_gateway) as kill:
                proxy.lose_answer(then=kill)
                assert consumer.get_next(topic) == "1"
            proxy.lose_answer()
            assert [consumer.get_next(topic) for _ in range(4)] == ["2", "3", "4", "5"]
            with pytest.raises(NoMessageError):
                consumer.get_next(topic)
            number = consumer.id
        assert proxy.lost == 2
    with Consumer(topic, mortal_gateway.url, id=number) as later:
        assert later.size(topic) == 0


def test_a_gateway_killed_between_produce_and_answer(mortal_gateway: GatewayProcess, topic: str) -> None:
    with (
        LosingProxy(mortal_gateway.port) as proxy,
        Producer(topic, proxy.url, timeout_s=PATIENT_S) as producer,
    ):
        producer.send(topic, "0")
        with restarted(mortal_gateway) as kill:
            proxy.lose_answer(then=kill)
            assert producer.send(topic, "1") == Delivered(topic, 0, 1)
        proxy.lose_answer()
        assert producer.send(topic, "2") == Delivered(topic, 0, 2)
        assert proxy.lost == 2
    with Consumer(topic, mortal_gateway.url) as consumer:
        assert [consumer.get_next(topic) for _ in range(3)] == ["0", "1", "2"]
        assert not consumer.has_next(topic)


READER = """
import sys
from penstock import Consumer

address, topic, number = sys.argv[1:]
consumer = Consumer(topic, address, id=int(number) if number else None)
print(consumer.id, flush=True)
while sys.stdin.readline():
    print(consumer.get_next(topic), flush=True)
"""


@pytest.mark.parametrize("transport", ["kafka", "http"])
def test_a_reader_that_is_killed_is_gone_on_with(
    transport: str, bootstrap: str, shared_gateway: GatewayProcess, topic: str
) -> None:
    address = bootstrap if transport == "kafka" else shared_gateway.url
    with Producer(topic, address) as producer:
        for count in range(9):
            producer.send(topic, str(count))
    number, got = "", []
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", READER, address, topic, number],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        ) as reader:
            assert reader.stdin is not None
            assert reader.stdout is not None
            number = reader.stdout.readline().strip()
            for _ in range(3):
                reader.stdin.write("next\n")
                reader.stdin.flush()
                got.append(reader.stdout.readline().strip())
            reader.kill()
    assert got == [str(count) for count in range(9)]
