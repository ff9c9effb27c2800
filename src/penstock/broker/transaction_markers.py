"""Brings the markers of ended transactions to the leaders of their partitions, for as long as it takes.

Each node has one queue: what waits there goes in one request, and while that is under way more gathers. A
partition whose leader is away or has changed is asked for again after a pause, at whoever leads then. One
that was deleted needs no marker. One that does not commit its marker in time goes through a queue of its
node's own for such, so that no other waits for it.

A marker that is refused because its coordinator's epoch is of the past means that another coordinator is at
work: it sends the same outcome, and this one stops. One whose producer epoch is of the past has been
overtaken by a later marker of the same owner, which ended the same transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.broker.marker_writer import write_marker
from penstock.groups.messages import Producer
from penstock.peers.connection import PeerError
from penstock.peers.peers import Lane
from penstock.types import ErrorCode, TopicPartition
from penstock.wire.control import Marker
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.transactions.messages import SendMarkers

log = logging.getLogger(__name__)

WRITE_TXN_MARKERS: Final = (27, 1)
ANSWER_S_MAX: Final = 30.0
PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 1.0
MARKERS_MAX: Final = 500
"""Transactions in one request."""
_OVERTAKEN: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})

Outcomes = dict[tuple[int, TopicPartition], ErrorCode]


@dataclass(slots=True, eq=False)
class _Ending:
    """One transaction and the partitions that have no marker yet."""

    markers: SendMarkers
    coordinator_epoch: int
    is_wanted: Callable[[], bool]
    on_done: Callable[[], None]
    missing: set[TopicPartition]
    pause_s: float = PAUSE_S_MIN

    @property
    def producer(self) -> Producer:
        return Producer(self.markers.identity.producer_id, self.markers.identity.producer_epoch)

    @property
    def marker(self) -> Marker:
        return Marker(self.markers.is_commit, self.coordinator_epoch)

    def mark(self, partitions: set[TopicPartition]) -> None:
        if partitions and self.missing:
            self.missing -= partitions
            if not self.missing:
                self.on_done()


Queue = dict[_Ending, set[TopicPartition]]


class _Way(NamedTuple):
    node_id: int
    is_late: bool


class TransactionMarkers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues: dict[_Way, Queue] = {}
        self._senders: dict[_Way, asyncio.Task[None]] = {}
        self._late: set[TopicPartition] = set()
        """Partitions that did not commit the last marker in time."""
        self._timers: set[asyncio.TimerHandle] = set()
        self._is_closed = False

    def send(
        self,
        markers: SendMarkers,
        coordinator_epoch: int,
        is_wanted: Callable[[], bool],
        on_done: Callable[[], None],
    ) -> None:
        """Bring the markers to their partitions, as long as that is wanted; then call `on_done`."""
        if not markers.partitions:
            on_done()
            return
        partitions = set(markers.partitions)
        self._route(_Ending(markers, coordinator_epoch, is_wanted, on_done, set(partitions)), partitions)

    async def close(self) -> None:
        self._is_closed = True
        for timer in self._timers:
            timer.cancel()
        senders = list(self._senders.values())
        for sender in senders:
            sender.cancel()
        if senders:
            await asyncio.wait(senders)

    def _route(self, ending: _Ending, partitions: set[TopicPartition]) -> None:
        """Put each partition into the queue of its leader."""
        if self._is_closed or not ending.is_wanted():
            return
        topics = self._broker.controller.image.topics
        deleted, leaderless = set(), set()
        for where in sorted(partitions):  # in the same order each time, so that a run can be repeated
            topic = topics.get(where.topic)
            if topic is None or where.partition not in topic.partitions:
                deleted.add(where)
            elif (leader := topic.partitions[where.partition].leader) < 0:
                leaderless.add(where)
            else:
                way = _Way(leader, where in self._late)
                self._queues.setdefault(way, {}).setdefault(ending, set()).add(where)
                if way not in self._senders:
                    self._senders[way] = asyncio.get_running_loop().create_task(self._send_all(way))
        self._again(ending, leaderless)
        ending.mark(deleted)

    async def _send_all(self, way: _Way) -> None:
        try:
            while queue := self._queues.pop(way, None):
                endings = dict(list(queue.items())[:MARKERS_MAX])
                if rest := {key: value for key, value in queue.items() if key not in endings}:
                    self._queues[way] = rest
                try:
                    outcomes = await self._ask(way, endings)
                except Exception:
                    log.exception("markers for node %d", way.node_id)
                    outcomes = {}  # they are wanted all the same
                for ending, partitions in endings.items():
                    self._take(ending, partitions, outcomes)
        finally:
            del self._senders[way]

    async def _ask(self, way: _Way, endings: Queue) -> Outcomes:
        if way.node_id == self._broker.config.node_id:
            return await self._write_here(endings)
        lane = Lane.LATE_MARKERS if way.is_late else Lane.MARKERS
        try:
            answer = await self._broker.peers.ask(
                way.node_id, lane, *WRITE_TXN_MARKERS, _request(endings), timeout_s=ANSWER_S_MAX
            )
        except (PeerError, DecodeError) as error:
            log.debug("markers for node %d: %s", way.node_id, error)
            return {}
        return {
            (marker.producer_id, TopicPartition(topic.name, each.partition_index)): each.error_code
            for marker in answer.markers
            for topic in marker.topics
            for each in topic.partitions
        }

    async def _write_here(self, endings: Queue) -> Outcomes:
        wanted = [(ending, where) for ending, partitions in endings.items() for where in sorted(partitions)]
        errors = await asyncio.gather(
            *(write_marker(self._broker, where, ending.producer, ending.marker) for ending, where in wanted)
        )
        return {
            (ending.producer.id, where): error for (ending, where), error in zip(wanted, errors, strict=True)
        }

    def _take(self, ending: _Ending, partitions: set[TopicPartition], outcomes: Outcomes) -> None:
        written, left = set[TopicPartition](), set[TopicPartition]()
        for where in partitions:
            error = outcomes.get((ending.producer.id, where), ErrorCode.not_leader_or_follower)
            if error is ErrorCode.transaction_coordinator_fenced:
                log.warning("another coordinator ends %s", ending.markers.identity.transactional_id)
                return
            is_done = error is ErrorCode.none or error in _OVERTAKEN
            (written if is_done else left).add(where)
            if error is ErrorCode.request_timed_out:
                self._late.add(where)
            else:
                self._late.discard(where)
        self._again(ending, left)
        ending.mark(written)

    def _again(self, ending: _Ending, partitions: set[TopicPartition]) -> None:
        if not partitions or self._is_closed:
            return
        pause_s = ending.pause_s
        ending.pause_s = min(pause_s * 2, PAUSE_S_MAX)

        def route() -> None:
            self._timers.discard(timer)
            self._route(ending, partitions)

        timer = asyncio.get_running_loop().call_later(pause_s, route)
        self._timers.add(timer)


def _request(endings: Queue) -> dict[str, Any]:
    markers = []
    for ending, partitions in endings.items():
        topics: dict[str, list[int]] = {}
        for where in sorted(partitions):
            topics.setdefault(where.topic, []).append(where.partition)
        markers.append(
            {
                "producer_id": ending.producer.id,
                "producer_epoch": ending.producer.epoch,
                "transaction_result": ending.markers.is_commit,
                "coordinator_epoch": ending.coordinator_epoch,
                "topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()],
            }
        )
    return {"markers": markers}
