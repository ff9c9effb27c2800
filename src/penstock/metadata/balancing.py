"""What the balancer would do: who lends a replica, who leads, where replicas lie. Pure; time is passed in.

Four rules, each with its reason:

replenish    A partition that has fewer live replicas than it should for a while borrows a broker.
spread       A broker that is too busy gives the leadership of a partition to an in-sync replica that has
             room; if none has, an idle broker is borrowed first. Order is kept per partition, so per key.
consolidate  When there is room again, the preferred replica leads again; what was borrowed and is not needed
             any more is given back. Leadership that fail-overs piled up returns in the same way.
even         Replicas move from brokers that have many to those that have few, or whose disks are filling up.

A borrowed replica stands behind the others in the list, so that an in-sync one of the partition's own is
preferred at each election, and it does not count for the replication factor. That, and who the preferred
leader is, is all that has to be remembered of a move, and both are in the metadata: the next controller goes
on where this one stopped. What it keeps itself is since when something is as it is, and what moved lately.
Without that it only waits longer: nothing is done before a condition has lasted, and a partition that was
moved is left alone for a while, so nothing swings to and fro.

No move lowers safety: leaders are taken from the in-sync set, replicas are taken away only when all of the
partition's own are in sync, and no replica moves into a rack that has one already while it leaves one that
has no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.metadata.balance_view import View
from penstock.metadata.evening import Uneven
from penstock.metadata.moves import Move, Place, Rule

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage, PartitionImage
    from penstock.metadata.load import BrokerLoad

BORROWED_MAX: Final = 2
"""Of one partition."""
WORTH_MOVING: Final = 0.03
"""Share of a leader's time below which the partition is not what makes its broker busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerLimits:
    grace_ms: int = 30_000
    """How long a replica is away, or brokers hold unequally many, before anything is done about it."""
    busy: float = 0.7
    """Share of its time from which on a broker has too much to do."""
    busy_ms: int = 5_000
    room: float = 0.6
    """As busy a broker may become by what it is given."""
    calm: float = 0.5
    """As busy a preferred leader may become by what returns to it."""
    calm_ms: int = 10_000
    window_ms: int = 60_000
    """For so long a partition that was moved is left alone, unless brokers fail."""
    pause_ms: int = 5_000
    """After a broker gave leadership away: what that has brought must be measured first."""
    copies_max: int = 4
    """Replicas that are being filled at any one time."""
    returns_max: int = 50
    """Leaders that return at once."""


class Balancer:
    """Remembers since when things are as they are; `decide` is called about once a second."""

    def __init__(self, limits: BalancerLimits) -> None:
        self._limits = limits
        self._since_ms: dict[Hashable, int] = {}
        self._seen: set[Hashable] = set()
        self._moved_ms: dict[Place, int] = {}
        self._gave_ms: dict[int, int] = {}

    def decide(self, image: MetadataImage, load: Mapping[int, BrokerLoad], now_ms: int) -> list[Move]:
        view = View(image, load, now_ms)
        self._seen = set()
        moves: list[Move] = []
        for rule in (self._replenish, self._spread, self._consolidate, self._even):
            for move in rule(view):
                view.touched.add(move.place)
                moves.append(move)
        self._since_ms = {key: since for key, since in self._since_ms.items() if key in self._seen}
        window_ms = self._limits.window_ms
        self._moved_ms = {place: at for place, at in self._moved_ms.items() if now_ms - at < window_ms}
        return moves

    def moved(self, move: Move, now_ms: int) -> None:
        """The move was made."""
        self._moved_ms[move.place] = now_ms

    def _lasts(self, view: View, key: Hashable, duration_ms: int) -> bool:
        """Whether it has been so at each look for that long. To be asked at each look at which it is so."""
        self._seen.add(key)
        return view.now_ms - self._since_ms.setdefault(key, view.now_ms) >= duration_ms

    def _lasted_s(self, view: View, key: Hashable) -> str:
        return f"{(view.now_ms - self._since_ms[key]) / 1000:.0f} s"

    # Rules

    def _replenish(self, view: View) -> Iterator[Move]:
        for place, _, partition in view.partitions():
            if partition.adding or partition.removing:
                continue
            own = [each for each in partition.replicas if each not in partition.borrowed]
            alive = [
                each
                for each in partition.replicas
                if each in view.electable and each not in partition.offline
            ]
            if len(alive) >= len(own) or partition.leader not in alive:
                continue  # enough, or nobody to copy from
            key = ("below", place)
            if not self._lasts(view, key, self._limits.grace_ms) or view.copies >= self._limits.copies_max:
                continue
            lender = view.lender(partition, iter(alive))
            if lender is None or len(partition.borrowed) >= len(own):
                continue
            view.copies += 1
            view.held[lender] += 1
            yield Move(
                Rule.REPLENISH, place, partition.partition_epoch,
                f"{len(alive)} of {len(own)} replicas have been in service for {self._lasted_s(view, key)}",
                borrow=lender,
            )  # fmt: skip

    def _spread(self, view: View) -> Iterator[Move]:
        led: dict[int, list[tuple[float, Place, PartitionImage]]] | None = None
        for broker_id, load in sorted(view.load.items()):
            if broker_id not in view.electable or load.busy <= self._limits.busy:
                continue
            key = ("busy", broker_id)
            if not self._lasts(view, key, self._limits.busy_ms):
                continue
            if view.now_ms - self._gave_ms.get(broker_id, -self._limits.pause_ms) < self._limits.pause_ms:
                continue
            if led is None:
                led = self._led(view)
            move = self._relief(view, broker_id, led.get(broker_id, []))
            if move is not None:
                self._gave_ms[broker_id] = view.now_ms
                yield move

    def _led(self, view: View) -> dict[int, list[tuple[float, Place, PartitionImage]]]:
        """What each broker leads and is worth moving, the busiest first."""
        led: dict[int, list[tuple[float, Place, PartitionImage]]] = defaultdict(list)
        for place, topic, partition in view.partitions():
            share = view.share(topic, place.partition, partition.leader)
            is_settled = not partition.adding and not partition.removing and place not in view.touched
            if is_settled and share >= WORTH_MOVING and place not in self._moved_ms:
                led[partition.leader].append((share, place, partition))
        for partitions in led.values():
            partitions.sort(key=lambda each: (-each[0], each[1]))
        return led

    def _relief(
        self, view: View, broker_id: int, led: list[tuple[float, Place, PartitionImage]]
    ) -> Move | None:
        reason = f"broker {broker_id} is busy at {view.busy[broker_id]:.0%}"
        room = self._limits.room
        for share, place, partition in led:
            others = [each for each in partition.isr if each != broker_id and view.can_lead(partition, each)]
            fit = [each for each in others if view.busy[each] + share <= room]
            if fit:
                leader = min(fit, key=lambda each: (view.busy[each], each))
                view.busy[leader] += share
                view.busy[broker_id] -= share
                reason = f"{reason}, and {share:.0%} of it are for this partition; {leader} has room"
                return Move(Rule.SPREAD, place, partition.partition_epoch, reason, leader=leader)
        if any(set(partition.borrowed) - set(partition.isr) for _, _, partition in led):
            return None  # one is on its way already
        for share, place, partition in led:
            if len(partition.borrowed) >= BORROWED_MAX or view.copies >= self._limits.copies_max:
                continue
            alive = (each for each in partition.replicas if each in view.electable)
            lender = view.lender(partition, alive, extra=share)
            if lender is not None and view.busy[lender] + share <= room:
                view.copies += 1
                view.held[lender] += 1
                reason = f"{reason}, and no replica of this partition has room; broker {lender} has"
                return Move(Rule.SPREAD, place, partition.partition_epoch, reason, borrow=lender)
        return None

    def _consolidate(self, view: View) -> Iterator[Move]:
        returns = 0
        for place, topic, partition in view.partitions():
            if partition.adding or partition.removing or place in view.touched:
                continue
            preferred, leader = partition.replicas[0], partition.leader
            if leader not in (preferred, -1) and view.can_lead(partition, preferred):
                share = view.share(topic, place.partition, leader)
                key = ("return", place)
                if view.busy[preferred] + share > self._limits.calm or place in self._moved_ms:
                    continue
                if self._lasts(view, key, self._limits.calm_ms) and returns < self._limits.returns_max:
                    returns += 1
                    view.busy[preferred] += share
                    reason = (
                        f"its preferred leader has been in sync, with time to spare,"
                        f" for {self._lasted_s(view, key)}"
                    )
                    yield Move(Rule.CONSOLIDATE, place, partition.partition_epoch, reason, leader=preferred)
            elif partition.borrowed:
                move = self._maybe_give_back(view, place, partition)
                if move is not None:
                    yield move

    def _maybe_give_back(self, view: View, place: Place, partition: PartitionImage) -> Move | None:
        own = [each for each in partition.replicas if each not in partition.borrowed]
        is_whole = all(view.can_lead(partition, each) for each in own) and partition.leader in own
        if not is_whole or view.busy[partition.leader] > self._limits.busy:
            return None
        key = ("whole", place)
        if not self._lasts(view, key, self._limits.calm_ms):
            return None
        reason = f"its own replicas have been in sync for {self._lasted_s(view, key)}"
        last = partition.borrowed[-1]
        return Move(Rule.CONSOLIDATE, place, partition.partition_epoch, reason, give_back=last)

    def _even(self, view: View) -> Iterator[Move]:
        uneven = Uneven(view, view.touched | self._moved_ms.keys())
        if uneven.is_so and self._lasts(view, "uneven", self._limits.grace_ms):
            while view.copies < self._limits.copies_max and (move := uneven.maybe_move()) is not None:
                yield move
