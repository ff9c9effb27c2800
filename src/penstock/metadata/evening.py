"""The rule *even* of the balancer: replicas move from brokers that have many to those that have few. Pure.

Those that have most and those that have fewest are tried first, and the next ones where racks, or what moves
already, stand in the way. A broker whose disk is filling up gives replicas away however many it has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from penstock.metadata.moves import Move, Place, Rule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from penstock.metadata.balance_view import View
    from penstock.metadata.image import PartitionImage, TopicImage

DISK_FULL: Final = 0.10
"""A broker with less of its disk left gives replicas away."""
PAIRS_MAX: Final = 20
"""Of brokers, that are looked at for one move."""


class Uneven:
    def __init__(self, view: View, left_alone: Collection[Place]) -> None:
        self._view = view
        self._left_alone = left_alone
        self._movable: dict[int, list[tuple[Place, PartitionImage]]] | None = None
        """By broker that has a replica."""
        self._preferred: Counter[int] = Counter()
        self._by_topic: Counter[tuple[int, str]] = Counter()

    @property
    def is_so(self) -> bool:
        return next(self._pairs(), None) is not None

    def _pairs(self) -> Iterator[tuple[int, int, str]]:
        """Who has too many, who too few, and why."""
        view = self._view
        held = view.held
        few = sorted((held[each], each) for each in view.electable if view.has_disk(each))
        full = [each for each in view.electable if view.disk_free_share(each) < DISK_FULL and held[each]]
        for many in sorted(full, key=lambda each: (view.disk_free_share(each), each)):
            reason = f"broker {many} has {view.disk_free_share(many):.0%} of its disk left"
            for _, other in few:
                yield many, other, reason
        for count, many in sorted(((held[each], each) for each in view.electable), reverse=True):
            for least, other in few:
                if count - least < 2:
                    break
                yield many, other, f"broker {many} has {count} replicas, broker {other} has {least}"

    def maybe_move(self) -> Move | None:
        """The next move, counted as made."""
        view = self._view
        for tried, (many, few, reason) in enumerate(self._pairs()):
            if tried >= PAIRS_MAX:
                return None
            chosen = self._maybe_choose(many, few)
            if chosen is None:
                continue
            place, partition = chosen
            self._all_movable()[many].remove(chosen)
            view.copies += 1
            view.held[many] -= 1
            view.held[few] += 1
            view.touched.add(place)
            replicas = tuple(few if each == many else each for each in partition.replicas)
            self._preferred.update({replicas[0]: 1})
            self._preferred.subtract({partition.replicas[0]: 1})
            return Move(Rule.EVEN, place, partition.partition_epoch, reason, replicas=replicas)
        return None

    def _maybe_choose(self, many: int, few: int) -> tuple[Place, PartitionImage] | None:
        """One that `many` has and `few` may have, of the topic that has most there.

        The new replica takes the place of the old one, so preferred leaders are evened out as well: those of
        the broker that has more of them go first.
        """
        candidates = [
            (place, partition)
            for place, partition in self._all_movable().get(many, [])
            if few not in partition.replicas
            and place not in self._view.touched
            and self._keeps_racks(partition, many, few)
        ]
        leads = self._preferred[many] - self._preferred[few] >= 2
        return min(
            candidates,
            key=lambda each: (
                (each[1].replicas[0] == many) != leads, -self._by_topic[many, each[0].topic], each[0],
            ),
            default=None,
        )  # fmt: skip

    def _all_movable(self) -> dict[int, list[tuple[Place, PartitionImage]]]:
        if self._movable is None:
            self._movable = defaultdict(list)
            for place, topic, partition in self._view.partitions():
                self._preferred[partition.replicas[0]] += 1
                self._by_topic.update((each, place.topic) for each in partition.replicas)
                is_settled = not (partition.adding or partition.removing or partition.borrowed)
                if not is_settled or place in self._left_alone or _is_packed(topic):
                    continue
                if all(self._view.can_lead(partition, each) for each in partition.replicas):
                    for each in partition.replicas:
                        self._movable[each].append((place, partition))
        return self._movable

    def _keeps_racks(self, partition: PartitionImage, old: int, new: int) -> bool:
        racks = self._view.electable
        others = {racks[each] for each in partition.replicas if each != old}
        return racks[new] not in others or racks[old] in others


def _is_packed(topic: TopicImage) -> bool:
    """Whether all its partitions were put on the same brokers on purpose, as those of a quadrant are."""
    return len(topic.partitions) > 1 and len({each.replicas for each in topic.partitions.values()}) == 1
