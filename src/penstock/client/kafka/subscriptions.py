"""What a subscriber is subscribed to, and its durable positions there.

They are offsets of the group `penstock.subscriber.<id>`. Every write of them is a transaction under the same
id (see transactional.py), so a subscriber that was replaced can write none.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.client.errors import DataNotAvailableError, SubscriberFencedError
from penstock.client.kafka.durable_topics import ensure_topic
from penstock.client.kafka.group_offsets import end_offsets, forget_offsets, group_offsets
from penstock.client.kafka.raw.requests import READ_COMMITTED, READ_UNCOMMITTED, GroupOffset
from penstock.client.kafka.transactional import Transactional
from penstock.client.pubsub.messages import name_of
from penstock.client.pubsub.positions import Position, parse

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster
    from penstock.client.pubsub.messages import Outgoing, Partition

STABLE_PAUSE_S: Final = 0.02


class Subscriptions:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        fenced = f"subscriber {name!r} was replaced by another one with this id: it can get no more"
        self.link = Transactional(cluster, name_of("subscriber", name), lambda: SubscriberFencedError(fenced))
        self.link.is_replaced = self._is_replaced
        self.positions: dict[Partition, Position] = {}
        self._me = secrets.token_hex(4)
        self._written_by: dict[Partition, str] = {}
        self._writes = 0
        self._is_unsure = False
        """Whether the last write may have happened or not."""

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topic, _ in self.positions}))

    def of(self, topic: str) -> dict[Partition, Position]:
        return {each: position for each, position in self.positions.items() if each[0] == topic}

    def after(self, offsets: Mapping[Partition, int]) -> dict[Partition, Position]:
        """The positions with other offsets, where they are still there."""
        return {each: self.positions[each].at(at) for each, at in offsets.items() if each in self.positions}

    def read(self, failed: str) -> None:
        """What the cluster knows, when everything is decided."""
        self.link.insist(lambda _: self._read(), failed)

    def begin(self, topic: str) -> None:
        """Each attempt looks where the topic ends: it may be deleted and made anew between two of them."""
        self._writes += 1

        def work(deadline: float) -> None:
            if self._is_unsure:
                self._read()
            self._transact(self._written(self._first_positions(topic, deadline)), (), deadline)

        failed = f"topic {topic!r} is not subscribed to"
        self.link.insist(work, failed, f"it is not known whether topic {topic!r} is subscribed to")

    def end(self, topic: str) -> None:
        ending = self.of(topic)
        self.write(ending)  # nothing changes, but one that was replaced is told so
        self.link.insist(
            lambda _: forget_offsets(self.link.brokers, self.link.name, ending),
            f"the subscription to topic {topic!r} is not ended",
        )
        for partition in ending:
            del self.positions[partition]
            self._written_by.pop(partition, None)

    def write(
        self,
        positions: Mapping[Partition, Position],
        outgoing: Sequence[tuple[Partition, Outgoing]] = (),
    ) -> None:
        """Makes the positions durable, and stores the messages together with them."""
        if not positions:
            return
        self._writes += 1
        targets = self._written(positions)

        def work(deadline: float) -> None:
            if self._is_unsure:
                self._read()
                if any(self.positions.get(each) == target for each, target in targets.items()):
                    return  # what was tried before has happened
            self._transact(targets, outgoing, deadline)

        what = f"the position of subscriber {self._name!r} is"
        self.link.insist(work, f"{what} not written", f"{what} written or not, which is not known")

    def _written(self, positions: Mapping[Partition, Position]) -> dict[Partition, Position]:
        return {each: position.written(self._me, self._writes) for each, position in positions.items()}

    def _transact(
        self,
        targets: Mapping[Partition, Position],
        outgoing: Sequence[tuple[Partition, Outgoing]],
        deadline: float,
    ) -> None:
        if not targets:
            return
        offsets = {each: GroupOffset(target.offset, target.metadata()) for each, target in targets.items()}
        self._is_unsure = True
        self.link.transact(outgoing, lambda _: offsets, deadline)
        self._is_unsure = False
        self.positions.update(targets)

    def _read(self) -> None:
        found = self._group_positions()
        for partition, position in found.items():
            if position.by not in (self._me, self._written_by.setdefault(partition, position.by)):
                raise self.link.fence()
        self.positions = found
        self._is_unsure = False

    def _is_replaced(self) -> bool:
        return any(
            position.by not in (self._me, self._written_by.get(partition, position.by))
            for partition, position in self._group_positions().items()
        )

    def _group_positions(self) -> dict[Partition, Position]:
        offsets = group_offsets(self.link.brokers, self.link.name)
        parsed = {partition: parse(each.offset, each.metadata) for partition, each in offsets.items()}
        return {partition: position for partition, position in parsed.items() if position is not None}

    def _first_positions(self, topic: str, deadline: float) -> dict[Partition, Position]:
        """Where a subscription begins; nothing if there is one already.

        That is the end of the log, once everything before it is decided: what is committed later than that
        stands behind it.
        """
        indexes = ensure_topic(self._cluster, topic)
        if self.of(topic):
            return {}
        partitions = [(topic, index) for index in indexes]
        ends = end_offsets(self.link.brokers, partitions, READ_UNCOMMITTED)
        while True:
            stable = end_offsets(self.link.brokers, partitions, READ_COMMITTED)
            if all(stable[each] >= end for each, end in ends.items()):
                return {each: Position(end, since=end) for each, end in ends.items()}
            if time.monotonic() >= deadline:
                raise DataNotAvailableError(
                    f"topic {topic!r} has a transaction that is open for {self._cluster.timeout_s:g} s"
                )
            time.sleep(STABLE_PAUSE_S)
