"""The topic-queue document, Part C: a library whose producers and consumers keep their ids to themselves.

Several producers write to topics that they share, several consumers read them from the beginning, each at its
own pace, while the others go on. The names are the document's: send, has_next, get_next, size.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock import Consumer, NoMessageError, Producer
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.gateway import GatewayProcess


TOPICS = ("T-1", "T-2", "T-3")
PRODUCERS = {
    "P-1": ("T-1", "T-2", "T-3"),
    "P-2": ("T-1", "T-3"),
    "P-3": ("T-1", "T-2"),
    "P-4": ("T-2", "T-3"),
}
CONSUMERS = {"C-1": TOPICS, "C-2": ("T-1", "T-3"), "C-3": ("T-2",)}
MESSAGES = 25
"""From each producer to each of its topics."""
SECONDS_MAX = 120.0


@pytest.fixture(params=["http", "kafka"])
def address(request: pytest.FixtureRequest, bootstrap: str, shared_gateway: GatewayProcess) -> str:
    return bootstrap if request.param == "kafka" else shared_gateway.url


def named(prefix: str, topics: Iterable[str]) -> list[str]:
    """The document's names, for one test."""
    return [f"{prefix}-{topic}" for topic in topics]


def produce(name: str, prefix: str, address: str) -> None:
    with Producer(named(prefix, PRODUCERS[name]), address) as producer:
        for number in range(MESSAGES):
            for topic in producer.topics:
                producer.send(topic, f"{name} {number}")


def consume(name: str, prefix: str, address: str, produced: threading.Event) -> dict[str, list[str]]:
    topics = named(prefix, CONSUMERS[name])
    found: dict[str, list[str]] = {topic: [] for topic in topics}
    with Consumer(topics, address) as consumer:
        while True:
            all_there = produced.is_set()
            for topic in consumer.topics:
                while consumer.has_next(topic):
                    found[topic].append(consumer.get_next(topic))
            if all_there:
                break
        for topic in consumer.topics:
            assert consumer.size(topic) == 0
            with pytest.raises(NoMessageError):
                consumer.get_next(topic)
    return found


def test_part_c(address: str, topic: str) -> None:
    produced = threading.Event()
    with ThreadPoolExecutor(len(PRODUCERS) + len(CONSUMERS)) as threads:
        consumers = {name: threads.submit(consume, name, topic, address, produced) for name in CONSUMERS}
        producers = [threads.submit(produce, name, topic, address) for name in PRODUCERS]
        try:
            for producer in producers:
                producer.result(SECONDS_MAX * PATIENCE)
        finally:
            produced.set()
        found = {name: consumer.result(SECONDS_MAX * PATIENCE) for name, consumer in consumers.items()}

    logs = {each: read_log(address, each) for each in named(topic, TOPICS)}
    for name, topics in found.items():
        for each, messages in topics.items():
            assert messages == logs[each], f"{name} and {each}"
    for each, messages in logs.items():
        for name, topics_of in PRODUCERS.items():
            mine = [message for message in messages if message.startswith(f"{name} ")]
            is_written = each in named(topic, topics_of)
            assert mine == [f"{name} {number}" for number in range(MESSAGES) if is_written]


def read_log(address: str, topic: str) -> list[str]:
    """A consumer that comes late gets everything, too."""
    with Consumer([topic], address) as late:
        size = late.size(topic)
        messages = []
        while late.has_next(topic):
            messages.append(late.get_next(topic))
            assert late.size(topic) == size - len(messages)
        assert len(messages) == size
        return messages
