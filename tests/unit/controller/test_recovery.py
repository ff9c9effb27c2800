"""The controller asks replicas what they have, and elects when it is time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.controller import recovery
from penstock.controller.recovery import Recovery
from penstock.peers.connection import PeerError
from penstock.types import ErrorCode
from tests.unit.broker.in_process import eventually
from tests.unit.metadata.builders import apply, cluster, fenced, partition_of, with_topic
from tests.unit.metadata.test_recovery import after_power_failure

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.records import MetadataRecord
    from penstock.peers.peers import Peers


class World:
    """Brokers that tell their ends, or not; and an image that is changed at once."""

    def __init__(self, image: MetadataImage, ends: dict[int, int], *, is_allowed: bool = False) -> None:
        self.image = image
        self.ends = ends
        self.asked: list[int] = []
        self.recovery = Recovery(
            cast("Peers", self),
            lambda: self.image,
            self.change,
            is_unclean_allowed=lambda _topic: is_allowed,
            patience_s=0.05,
        )

    async def change(self, decide: Callable[[MetadataImage], tuple[Sequence[MetadataRecord], None]]) -> None:
        records, _ = decide(self.image)
        if records:
            self.image, _ = apply(self.image, records)

    async def ask(self, node_id: int, _lane: Any, key: int, _version: int, body: Any, **_: Any) -> Any:
        self.asked.append(node_id)
        (wanted,) = body["topics"][0]["partitions"]
        assert (key, body["replica_id"], wanted["timestamp"]) == (2, -2, -1)
        assert wanted["current_leader_epoch"] == partition_of(self.image).leader_epoch
        if node_id not in self.ends:
            raise PeerError("silence")
        end = self.ends[node_id]
        partition = SimpleNamespace(
            partition_index=0,
            error_code=ErrorCode.none if end >= 0 else ErrorCode.kafka_storage_error,
            leader_epoch=0,
            offset=end,
        )
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[partition])])

    def run(self, until: Callable[[], bool]) -> None:
        async def wait() -> None:
            self.recovery.start()
            await eventually(until)
            self.recovery.stop()

        asyncio.run(wait())


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "CHECK_S", 0.001)


def test_the_longest_log_leads() -> None:
    world = World(after_power_failure(1, 2, 3), {1: 5, 2: 7, 3: 6})
    world.run(lambda: partition_of(world.image).leader == 2)
    assert sorted(world.asked) == [1, 2, 3]


def test_who_does_not_answer_is_asked_again() -> None:
    world = World(after_power_failure(1, 2, 3), {1: 5, 2: -1})
    world.run(lambda: world.asked.count(3) >= 3)
    assert partition_of(world.image).leader == -1
    world.ends |= {2: 4, 3: 6}
    world.run(lambda: partition_of(world.image).leader == 3)


def test_a_topic_that_allows_it_is_given_a_leader_after_a_while() -> None:
    image = fenced(with_topic(cluster(3), "t", replicas=(1, 2, 3), isr=(1,)), 1)
    world = World(image, {2: 3, 3: 4}, is_allowed=True)
    world.run(lambda: partition_of(world.image).leader == 3)


def test_who_was_in_sync_is_given_time_to_come_back_first() -> None:
    image = fenced(with_topic(cluster(3), "t", replicas=(1, 2, 3), isr=(1,)), 1)
    looked: list[str] = []

    def allowed(topic: str) -> bool:
        looked.append(topic)
        return True

    world = World(image, {2: 3, 3: 4})
    world.recovery._patience_s = 60.0
    world.recovery._is_unclean_allowed = allowed
    world.run(lambda: len(looked) >= 5)
    assert not world.asked


def test_nobody_is_asked_about_a_topic_that_does_not_allow_it() -> None:
    image = fenced(with_topic(cluster(3), "t", replicas=(1, 2, 3), isr=(1,)), 1)
    looked: list[str] = []
    world = World(image, {2: 3, 3: 4})
    world.recovery._is_unclean_allowed = lambda topic: bool(looked.append(topic))
    world.run(lambda: bool(looked))
    assert not world.asked
