"""What a subscriber's reader puts into the inbox, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from penstock.client.kafka.cluster import Cluster
from penstock.client.kafka.subscription_reader import SubscriptionReader
from penstock.client.pubsub.inbox import Skipped

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITION = ("t", 0)


class FakeConsumer:
    """Each call of it does what the test says."""

    def __init__(self, on_skip: Callable[[tuple[str, int], int], None]) -> None:
        self._on_skip = on_skip
        self.steps: list[int | Skipped] = []
        """Offsets of messages, and where it goes on behind poison: before the message that it comes with."""

    def incremental_assign(self, _: object) -> None:
        pass

    def poll(self, _: float) -> Any:
        return self._next()

    def consume(self, number: int, timeout: float) -> list[Any]:
        return [each for each in (self._next() for _ in range(number)) if each is not None]

    def _next(self) -> Any:
        while self.steps:
            step = self.steps.pop(0)
            if isinstance(step, int):
                return message(step)
            self._on_skip(PARTITION, step.next)
        return None


def message(offset: int) -> Any:
    told = {"error": None, "topic": "t", "partition": 0, "offset": offset, "value": b"", "key": None}
    told |= {"headers": None, "timestamp": (TIMESTAMP_NOT_AVAILABLE, 0)}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in told.items()})


@pytest.mark.parametrize(
    ("steps", "inbox"),
    [
        ([0, 1, Skipped(5)], [0, 1, Skipped(5)]),
        ([Skipped(5), 0, 1], [0, 1, Skipped(5)]),  # messages that were polled in the same moment come first
        ([0, Skipped(5), 5, 6], [0, 5, 6]),  # the positions of these are behind it anyway
        ([Skipped(5), Skipped(8)], [Skipped(5), Skipped(8)]),
    ],
)
def test_a_place_behind_poison_comes_after_what_was_before_it(
    monkeypatch: pytest.MonkeyPatch, steps: list[Any], inbox: list[Any]
) -> None:
    monkeypatch.setattr(Cluster, "reader", lambda _self, _group, on_skip, **_own: FakeConsumer(on_skip))
    reader = SubscriptionReader(Cluster("127.0.0.1:1", 1.0), "g")
    reader.start({PARTITION: 0})
    consumer: Any = reader._consumer
    consumer.steps = list(steps)
    reader.fetch(0)
    reader.fetch(0)
    found: list[Any] = [reader.inbox.take()[1] for _ in range(len(reader.inbox))]
    assert [each if isinstance(each, Skipped) else each.offset for each in found] == inbox
