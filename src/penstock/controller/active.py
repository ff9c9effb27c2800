"""The active controller: the leader of the quorum decides, one change after the other.

A change is decided on the committed image, written as one batch, and counts when that is committed; the next
is decided after that. So of two requests for one name exactly one wins, and nobody sees half a batch. What
was begun is finished even if whoever asked goes away.

It also watches the brokers. Who has been silent for a session is fenced; who breaks its connection and has
nobody listening at its address is fenced at once. Clocks only decide when to try: that a fenced broker does
no harm is the business of epochs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from penstock.controller.balancing import Balancing
from penstock.controller.recovery import Recovery
from penstock.controller.sessions import BrokerSessions
from penstock.metadata import brokers
from penstock.metadata.image import ImageDraft
from penstock.metadata.records import ClusterRecord
from penstock.metadata.timeline import seconds
from penstock.peers.connection import PeerDownError, PeerError
from penstock.storage.errors import StorageError
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.config import ClusterLimits
    from penstock.controller.publisher import MetadataPublisher
    from penstock.controller.quorum_driver import QuorumDriver
    from penstock.metadata.brokers import Registration
    from penstock.metadata.image import BrokerImage, MetadataImage
    from penstock.metadata.leadership import MinInsync
    from penstock.metadata.records import MetadataRecord
    from penstock.peers.peers import Peers
    from penstock.wire.broker_heartbeat import HeartbeatRequest

log = logging.getLogger(__name__)

SESSION_CHECK_S: Final = 0.1
STALL_S: Final = 0.3
"""A check that comes later than this says that we were held up, not that brokers were silent."""
PROBES: Final = 20
PROBE_INTERVAL_S: Final = 0.05
Outcome = TypeVar("Outcome")
Decide = Callable[["MetadataImage"], tuple[Sequence["MetadataRecord"], Outcome]]


class HeartbeatReply(NamedTuple):
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class ActiveController:
    def __init__(
        self,
        driver: QuorumDriver,
        publisher: MetadataPublisher,
        peers: Peers,
        limits: ClusterLimits,
        *,
        balancer: str,
        min_insync: MinInsync,
        is_unclean_allowed: Callable[[str], bool],
        new_cluster_id: Callable[[], str],
        end_offset: Callable[[], int],
        watches_brokers: bool,
    ) -> None:
        self.epoch: int | None = None
        """Set while this node is the active controller."""
        self._driver = driver
        self._publisher = publisher
        self._peers = peers
        self._min_insync = min_insync
        self._new_cluster_id = new_cluster_id
        self._end_offset = end_offset
        self._watches_brokers = watches_brokers
        self._sessions = BrokerSessions(limits.broker_session_ms)
        self.recovery = Recovery(
            peers,
            lambda: self._publisher.image,
            self.change,
            is_unclean_allowed=is_unclean_allowed,
            patience_s=limits.broker_session_ms / 1000,
        )
        self.balancing = Balancing(balancer, limits, lambda: self._publisher.image, self.change, min_insync)
        self._offline: dict[int, tuple[int, frozenset[UUID]]] = {}
        """What each broker, in that epoch, said the last time of its replicas: the metadata say the same."""
        self._unfence_offsets: dict[int, int] = {}
        """Up to where each fenced broker must know the metadata before it serves again."""
        self._one_at_a_time = asyncio.Lock()
        self._changes: set[asyncio.Task[object]] = set()
        self._fencings: set[asyncio.Task[object]] = set()
        """Those of the changes that nobody asked for: the next controller makes them as well."""
        self._probes: set[asyncio.Task[None]] = set()
        self._changing: set[int] = set()
        """Brokers that are about to be unfenced or to stop."""
        self._commits: list[tuple[int, asyncio.Future[None]]] = []
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.Task[None] | None = None
        self._leads_epoch: int | None = None
        self._error: ApiError | None = None

    # What the quorum says

    def leader_is(self, epoch: int, *, is_me: bool) -> None:
        self._leads_epoch = epoch if is_me else None
        if not is_me and self.epoch is not None and self._watches_brokers:
            log.info("no longer the active controller")
        self.epoch = None
        self._offline.clear()
        self._fail_commits()
        self._watch_nobody()

    def _watch_nobody(self) -> None:
        self.recovery.stop()
        self.balancing.stop()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def committed(self, high_watermark: int) -> None:
        waiting = []
        for end_offset, commit in self._commits:
            if end_offset > high_watermark:
                waiting.append((end_offset, commit))
            elif not commit.done():
                commit.set_result(None)
        self._commits = waiting
        # The first commit of a leader covers all that came before it: the image is whole.
        if self.epoch is None and self._leads_epoch is not None and self._driver.core.takes_entries:
            self._activate(self._leads_epoch)

    def _activate(self, epoch: int) -> None:
        self.epoch = epoch
        if not self._watches_brokers:
            return
        now_ms = self._now_ms()
        for broker in self._publisher.image.brokers.values():
            if not broker.fenced:
                self._sessions.begin(broker.id, broker.epoch, now_ms)
                # Whoever died with the last controller broke its connection to that one, not to us.
                self._probe_soon(broker.id, broker.epoch)
        self._watch = self._loop.create_task(self._watch_sessions())
        self.recovery.start()
        self.balancing.start()

    async def stop(self) -> None:
        """Finish the changes under way, refuse further ones."""
        self._watch_nobody()
        if asked_for := self._changes - self._fencings:
            await asyncio.wait(asked_for, timeout=2.0)
        self.epoch = None
        self._fail_commits()
        if self._changes:
            await asyncio.wait(self._changes)

    def fail(self, error: Exception) -> None:
        """The disk refuses: nothing is changed any more until the next start."""
        self._error = ApiError(ErrorCode.kafka_storage_error, str(error))
        self.epoch = None
        self._fail_commits()

    def check(self) -> None:
        if self._error is not None:
            raise self._error
        if self.epoch is None:
            raise not_controller()

    def _fail_commits(self) -> None:
        commits, self._commits = self._commits, []
        for _, commit in commits:
            if not commit.done():
                commit.set_exception(self._error or not_controller())

    # Changes

    async def change(
        self, decide: Decide[Outcome], *, validate_only: bool = False, is_fencing: bool = False
    ) -> Outcome:
        self.check()
        if validate_only:
            return decide(self._publisher.image)[1]
        task = self._loop.create_task(self._decide_and_commit(decide))
        self._changes.add(task)
        if is_fencing:
            self._fencings.add(task)
        task.add_done_callback(self._change_done)
        return await asyncio.shield(task)

    def _change_done(self, task: asyncio.Task[object]) -> None:
        self._changes.discard(task)
        self._fencings.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # whoever asked may be gone
            log.warning("a change of the metadata was not made: %s", error)

    async def _decide_and_commit(self, decide: Decide[Outcome]) -> Outcome:
        async with self._one_at_a_time:
            self.check()
            image = self._publisher.image
            records, outcome = decide(image)
            if not records:
                return outcome
            if not image.cluster_id:
                records = [ClusterRecord(self._new_cluster_id()), *records]
            draft = ImageDraft(image)
            for record in records:
                draft.apply(record)  # before it is written: a batch that cannot be applied never is
            end_offset = await self._commit(records)
        try:
            await self._publisher.carried_out(end_offset)
        except StorageError as error:
            raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error
        return outcome

    async def _commit(self, records: Sequence[MetadataRecord]) -> int:
        try:
            epoch, end_offset = await self._driver.append(records)
        except StorageError as error:
            raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error
        self.check()
        if epoch != self.epoch:
            raise not_controller()
        if self._publisher.applied_offset < end_offset:
            commit: asyncio.Future[None] = self._loop.create_future()
            self._commits.append((end_offset, commit))
            await commit
        return end_offset

    # Brokers

    async def register(self, registration: Registration) -> int:
        """The epoch under which the broker is registered."""

        def decide(image: MetadataImage) -> tuple[Sequence[MetadataRecord], int]:
            return brokers.register_broker(
                image,
                registration,
                broker_epoch=self._end_offset(),
                is_alive=self._sessions.is_alive(registration.broker_id, self._now_ms()),
                min_insync=self._min_insync,
            )

        broker_epoch = await self.change(decide)
        self._sessions.begin(registration.broker_id, broker_epoch, self._now_ms())
        return broker_epoch

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatReply:
        """`request.offline`: the replicas, by `replica_id`, that are out of service there."""
        broker_id, broker_epoch, metadata_offset, wants_to_stop, offline, load = request
        self.check()
        broker = self._publisher.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            raise ApiError(ErrorCode.stale_broker_epoch)
        self._sessions.heard(broker_id, broker_epoch, self._now_ms())
        if load is not None:
            self.balancing.heard(broker_id, load)
        is_caught_up = metadata_offset > broker_epoch and self._knows_of_its_fencing(broker, metadata_offset)
        if wants_to_stop and not broker.stopping and not broker.fenced:
            self._change_soon(broker, lambda image: brokers.stop_broker(image, broker_id, self._min_insync))
        elif broker.fenced and is_caught_up and not broker.stopping and not wants_to_stop:
            self._change_soon(broker, lambda image: self._unfence(image, broker_id, broker_epoch))
        elif not broker.fenced and self._offline.get(broker_id, (-1, offline)) != (broker_epoch, offline):
            self._change_soon(
                broker, lambda image: self._take_report(image, broker_id, broker_epoch, offline)
            )
        return HeartbeatReply(
            is_caught_up, broker.fenced, wants_to_stop and (broker.stopping or broker.fenced)
        )

    def _take_report(
        self, image: MetadataImage, broker_id: int, broker_epoch: int, offline: frozenset[UUID]
    ) -> Sequence[MetadataRecord]:
        records = brokers.report_offline(image, broker_id, broker_epoch, offline, self._min_insync)
        if records:
            self._offline.pop(broker_id, None)  # until a heartbeat finds that nothing is left to do
        else:
            self._offline[broker_id] = (broker_epoch, offline)
        return records

    def _change_soon(
        self, broker: BrokerImage, decide: Callable[[MetadataImage], Sequence[MetadataRecord]]
    ) -> None:
        """A heartbeat is answered at once; its broker asks again soon, and hears then what became of it."""
        if broker.id in self._changing:
            return
        self._changing.add(broker.id)
        task = self._loop.create_task(self._change_of(broker.id, decide))
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _change_of(
        self, broker_id: int, decide: Callable[[MetadataImage], Sequence[MetadataRecord]]
    ) -> None:
        try:
            await self.change(lambda image: (decide(image), None))
        except ApiError as error:
            log.info("broker %d: %s", broker_id, error)
        finally:
            self._changing.discard(broker_id)

    def _knows_of_its_fencing(self, broker: BrokerImage, metadata_offset: int) -> bool:
        """A broker that was away may still believe to lead: it has to know what happened meanwhile."""
        if not broker.fenced:
            self._unfence_offsets.pop(broker.id, None)
            return True
        return metadata_offset >= self._unfence_offsets.setdefault(broker.id, self._publisher.applied_offset)

    def _unfence(self, image: MetadataImage, broker_id: int, broker_epoch: int) -> Sequence[MetadataRecord]:
        broker = image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch or not broker.fenced:
            return []
        return brokers.unfence_broker(image, broker_id, self._min_insync)

    async def connection_lost(self, broker_id: int, broker_epoch: int) -> None:
        """The connection of a broker's heartbeats has gone: perhaps its process has, too."""
        await self._probe(broker_id, broker_epoch, "after its connection broke")

    async def _probe(self, broker_id: int, broker_epoch: int, since: str) -> None:
        """One that is dying may still take connections for a moment, so it is looked at more than once."""
        lost_at_ms = self._now_ms()
        for _ in range(PROBES):
            broker = self._publisher.image.brokers.get(broker_id)
            if self.epoch is None or broker is None or broker.fenced or broker.epoch != broker_epoch:
                return
            try:
                await self._peers.probe(broker_id)
            except PeerDownError:
                noticed = seconds(self._now_ms() - lost_at_ms)
                await self._fence(broker_id, broker_epoch, f"its process is gone, noticed {noticed} {since}")
                return
            except PeerError as error:
                log.info("broker %d: %s", broker_id, error)
                return  # the session decides
            await asyncio.sleep(PROBE_INTERVAL_S)
            if self._sessions.heard_since(broker_id, lost_at_ms):
                return

    def _probe_soon(self, broker_id: int, broker_epoch: int) -> None:
        probe = self._loop.create_task(
            self._probe(broker_id, broker_epoch, "after this controller took over")
        )
        self._probes.add(probe)
        probe.add_done_callback(self._probes.discard)

    async def _watch_sessions(self) -> None:
        while True:
            before = self._loop.time()
            await asyncio.sleep(SESSION_CHECK_S)
            late_s = self._loop.time() - before - SESSION_CHECK_S
            if late_s > STALL_S:
                self._sessions.forgive(int(late_s * 1000))
            for broker_id in self._sessions.silent(self._now_ms()):
                broker = self._publisher.image.brokers.get(broker_id)
                silent = seconds(self._sessions.silent_ms(broker_id, self._now_ms()))
                self._sessions.end(broker_id)
                if broker is not None and not broker.fenced:
                    await self._fence(broker_id, broker.epoch, f"nothing was heard of it for {silent}")

    async def _fence(self, broker_id: int, broker_epoch: int, cause: str) -> None:
        def decide(image: MetadataImage) -> tuple[Sequence[MetadataRecord], None]:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.epoch != broker_epoch or broker.fenced:
                return [], None
            return brokers.fence_broker(image, broker_id, cause, self._min_insync), None

        try:
            await self.change(decide, is_fencing=True)
        except ApiError as error:
            log.info("broker %d is not fenced: %s", broker_id, error)
        except Exception:  # the watch over all others must go on
            log.exception("broker %d is not fenced", broker_id)
        else:
            self._sessions.end(broker_id)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)


def not_controller() -> ApiError:
    return ApiError(ErrorCode.not_controller, "this node is not the active controller")
