"""The cluster as the balancer sees it at one moment. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.metadata.load import IDLE
from penstock.metadata.moves import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.metadata.image import MetadataImage, PartitionImage, TopicImage
    from penstock.metadata.load import BrokerLoad

UNKNOWN: Final = 1.0
"""As busy a broker is taken to be that has not said how busy it is."""
DISK_ROOM: Final = 0.20
"""A broker with less of its disk left gets no replicas."""


@dataclass(slots=True)
class View:
    """The cluster at one moment, and what the moves decided so far will make of it."""

    image: MetadataImage
    load: Mapping[int, BrokerLoad]
    now_ms: int
    electable: dict[int, str | None] = field(default_factory=dict)
    """With their racks."""
    busy: dict[int, float] = field(default_factory=dict)
    held: Counter[int] = field(default_factory=Counter)
    """Replicas by broker."""
    copies: int = 0
    touched: set[Place] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.electable = {each.id: each.rack for each in self.image.electable_brokers()}
        self.busy = {each: self.load[each].busy if each in self.load else UNKNOWN for each in self.electable}
        for _, _, partition in self.partitions():
            self.held.update(partition.target)
            coming = {*partition.adding, *partition.borrowed} - set(partition.isr)
            self.copies += len(coming & self.electable.keys())

    def partitions(self) -> Iterator[tuple[Place, TopicImage, PartitionImage]]:
        for name in sorted(self.image.topics):
            topic = self.image.topics[name]
            for index in sorted(topic.partitions):
                yield Place(name, index), topic, topic.partitions[index]

    def can_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        return (
            broker_id in partition.isr and broker_id in self.electable and broker_id not in partition.offline
        )

    def share(self, topic: TopicImage, index: int, leader: int) -> float:
        load = self.load.get(leader)
        return load.partitions.get((topic.topic_id, index), IDLE).share if load is not None else 0.0

    def disk_free_share(self, broker_id: int) -> float:
        return self.load[broker_id].disk_free_share if broker_id in self.load else 1.0

    def has_disk(self, broker_id: int) -> bool:
        return self.disk_free_share(broker_id) >= DISK_ROOM

    def lender(self, partition: PartitionImage, alive: Iterator[int], *, extra: float = 0.0) -> int | None:
        """The broker to borrow: of a rack that has no live replica if there is one, and the least busy."""
        racks = Counter(self.electable[each] for each in alive)
        candidates = [
            each for each in self.electable if each not in partition.replicas and self.has_disk(each)
        ]
        return min(
            candidates,
            key=lambda each: (
                racks[self.electable[each]], round(self.busy[each] + extra, 1), self.held[each], each,
            ),
            default=None,
        )  # fmt: skip
