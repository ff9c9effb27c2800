"""A cluster for the balancer: the real image and the real decisions, with load as arithmetic.

Once a virtual second brokers report how busy they are, the balancer decides, and what it decided is carried
out. Replicas that are being filled take some seconds until they join the in-sync set. A partition costs its
leader a share of its time and each follower a tenth of that.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.balancing import Balancer, BalancerLimits
from penstock.metadata.brokers import fence_broker, unfence_broker
from penstock.metadata.image import ImageDraft, MetadataImage, PartitionImage
from penstock.metadata.load import BrokerLoad, PartitionLoad
from penstock.metadata.moves import Move, Place, records_of
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.placement import place
from penstock.metadata.records import (
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.metadata.records import MetadataRecord

FOLLOWER_COST = 0.1
IDLE_COST = 0.03
COPY_S = (2, 20)
SECOND_MS = 1_000


@dataclass
class World:
    rng: random.Random
    limits: BalancerLimits = field(default_factory=BalancerLimits)
    image: MetadataImage = field(default_factory=MetadataImage)
    shares: dict[Place, float] = field(default_factory=dict)
    """What each partition costs its leader."""
    disk_free: dict[int, float] = field(default_factory=dict)
    now_ms: int = 0
    moves: list[tuple[int, Move]] = field(default_factory=list)
    _joins_ms: dict[tuple[Place, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.balancer = Balancer(self.limits)
        self._epoch = 0

    # The cluster

    def apply(self, records: Iterable[MetadataRecord]) -> None:
        draft = ImageDraft(self.image)
        for record in records:
            draft.apply(record)
        self.image, _ = draft.finish()

    def add_broker(self, broker_id: int, rack: str | None = None) -> None:
        self._epoch += 1
        self.apply(
            [
                RegisterBrokerRecord(
                    broker_id, self._epoch, UUID(int=broker_id), UUID(int=broker_id), "h", 1, rack
                ),
                UnfenceBrokerRecord(broker_id, self._epoch),
            ]
        )

    def add_topic(self, name: str, partitions: int, replicas: int, share: float, *, start: int = 0) -> None:
        topic_id = UUID(int=1_000 + len(self.image.topics))
        placed = place(
            self.image.live_brokers(), partitions=partitions, replication_factor=replicas, start=start
        )
        self.apply(
            [
                TopicRecord(name, topic_id),
                *(
                    PartitionRecord(topic_id, index, chosen, chosen, chosen[0], 0, 0)
                    for index, chosen in enumerate(placed)
                ),
            ]
        )
        self.shares |= {Place(name, index): share for index in range(partitions)}

    def minimum(self, topic: str) -> int:
        return self.image.topics[topic].replication_factor // 2 + 1

    def kill(self, broker_id: int) -> None:
        self.apply(fence_broker(self.image, broker_id, "killed", self.minimum))

    def bring_back(self, broker_id: int) -> None:
        self.apply(unfence_broker(self.image, broker_id, self.minimum))

    def controller_fails_over(self) -> None:
        """The next one knows only what is in the metadata."""
        self.balancer = Balancer(self.limits)

    # Time

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.step()

    def step(self) -> None:
        self.now_ms += SECOND_MS
        self._followers_catch_up()
        for move in self.balancer.decide(self.image, self.load(), self.now_ms):
            before = self.image
            records = records_of(before, move, self.minimum)
            if records:
                self.apply(records)
                self.balancer.moved(move, self.now_ms)
                self.moves.append((self.now_ms, move))
                check_safety(before, self.image, move)

    def _followers_catch_up(self) -> None:
        live = {each.id for each in self.image.electable_brokers()}
        for where, partition in self.partitions():
            missing = [each for each in partition.replicas if each not in partition.isr and each in live]
            if partition.leader not in live:
                continue
            for each in missing:
                low, high = COPY_S
                due = self._joins_ms.setdefault(
                    (where, each), self.now_ms + SECOND_MS * self.rng.randint(low, high)
                )
                if self.now_ms >= due:
                    del self._joins_ms[where, each]
                    self._join(where, each)

    def _join(self, where: Place, broker_id: int) -> None:
        topic = self.image.topics[where.topic]
        partition = topic.partitions[where.partition]
        members = tuple(
            (each, self.image.brokers[each].epoch) for each in dict.fromkeys((*partition.isr, broker_id))
        )
        change = IsrChange(
            topic.topic_id, where.partition, partition.leader_epoch, partition.partition_epoch, members
        )
        leader = self.image.brokers[partition.leader]
        records, _ = alter_partitions(self.image, leader.id, leader.epoch, [change], self.minimum)
        self.apply(records)

    def load(self) -> dict[int, BrokerLoad]:
        busy = Counter({each.id: IDLE_COST for each in self.image.live_brokers()})
        led: dict[int, dict[tuple[UUID, int], PartitionLoad]] = {each: {} for each in busy}
        for where, partition in self.partitions():
            share = self.shares[where]
            if partition.leader not in busy:
                continue
            busy[partition.leader] += share
            key = (self.image.topics[where.topic].topic_id, where.partition)
            led[partition.leader][key] = PartitionLoad(0.0, 0.0, share)
            for each in partition.replicas:
                if each != partition.leader and each in busy:
                    busy[each] += FOLLOWER_COST * share
        return {
            each: BrokerLoad(
                min(1.0, busy[each]),
                disk_free=int(1000 * self.disk_free.get(each, 1.0)),
                disk_size=1000,
                partitions=led[each],
            )
            for each in busy
        }

    # What it looks like

    def partitions(self) -> Iterator[tuple[Place, PartitionImage]]:
        for name, topic in self.image.topics.items():
            for index, partition in topic.partitions.items():
                yield Place(name, index), partition

    def moves_since(self, at_ms: int) -> list[Move]:
        return [move for moved_ms, move in self.moves if moved_ms > at_ms]

    def held(self) -> Counter[int]:
        found = Counter({each.id: 0 for each in self.image.live_brokers()})
        for _, partition in self.partitions():
            found.update(partition.target)
        return found

    def borrowed(self) -> list[Place]:
        return [where for where, partition in self.partitions() if partition.borrowed]

    def led_by_others(self) -> list[Place]:
        return [where for where, partition in self.partitions() if partition.leader != partition.replicas[0]]

    @property
    def has_racks(self) -> bool:
        return any(each.rack is not None for each in self.image.brokers.values())

    @property
    def is_busy(self) -> bool:
        """Some broker has not enough time to spare for all that it would get back."""
        own = Counter({each.id: IDLE_COST for each in self.image.live_brokers()})
        for where, partition in self.partitions():
            own[partition.replicas[0]] += self.shares[where]
            for each in partition.replicas[1:]:
                own[each] += FOLLOWER_COST * self.shares[where]
        return max(own.values()) > self.limits.calm

    def lacking(self) -> list[Place]:
        """Those that have fewer in-sync replicas than they should."""
        return [
            where
            for where, partition in self.partitions()
            if len(partition.isr) < len(partition.replicas) - len(partition.borrowed)
        ]


def check_safety(before: MetadataImage, after: MetadataImage, move: Move) -> None:
    """What no move may do, whatever it is for."""
    old = before.topics[move.place.topic].partitions[move.place.partition]
    new = after.topics[move.place.topic].partitions[move.place.partition]
    live = {each.id for each in before.electable_brokers()}
    assert new.leader in new.isr, (move, new)
    assert new.leader in live, (move, new)
    own = [each for each in old.replicas if each not in old.borrowed]
    if move.give_back is not None:
        assert set(own) <= set(new.isr) & live, (move, new)
    else:
        assert set(old.isr) <= set(new.isr), (move, new)
    if move.replicas is not None:
        assert len(racks(after, new.target)) >= len(racks(before, old.target)), (move, new)
    factor = before.topics[move.place.topic].replication_factor
    assert after.topics[move.place.topic].replication_factor == factor, (move, new)


def racks(image: MetadataImage, brokers: Sequence[int]) -> set[str | None]:
    return {image.brokers[each].rack for each in brokers}
