"""Runs the quorum's core on the event loop, the network and this node's metadata log.

Whatever happens (a message, an answer, a deadline, an entry to append) waits in one queue. It is told to the
core, and what the core wants done is done to its end, in order, before the next is taken: a vote is on disk
before it is answered, an entry before it counts. Only sending does not wait; the answer comes as an event of
its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.controller import quorum_wire
from penstock.controller.metadata_log import record_of, unpack_snapshot
from penstock.controller.snapshot_transfer import fetch_snapshot
from penstock.peers.connection import PeerDownError, PeerError
from penstock.peers.peers import Lane
from penstock.quorum.core import Quorum
from penstock.quorum.limits import OBSERVER_PATIENCE
from penstock.quorum.messages import (
    Answer,
    Append,
    AppendFetched,
    Committed,
    Effect,
    FetchRequest,
    FetchResponse,
    LeaderIs,
    LoadSnapshot,
    Persist,
    Send,
    StandStill,
    Truncate,
    VoteRequest,
    VoteResponse,
)
from penstock.storage.errors import StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.primitives import DecodeError

if TYPE_CHECKING:
    from penstock.controller.metadata_log import MetadataLog, Snapshot
    from penstock.metadata.records import MetadataRecord
    from penstock.peers.peers import Peers
    from penstock.quorum.limits import QuorumLimits
    from penstock.quorum.voters import Voter, VoterSet
    from penstock.replication.divergence import LogEnd
    from penstock.wire.batch import Buffer
    from penstock.wire.shapes import Body

log = logging.getLogger(__name__)

WAITING_S_MAX: Final = 5.0
"""Without a leader or a vote of its own for longer, the node's log says why."""
NOTE_S: Final = 1.0
"""Between two notes of what is committed."""
EVENTS_MAX: Final = 10_000
"""Waiting to be told to the core; beyond it requests are refused."""

Event = Callable[[int], list[Effect]]


class Listener(Protocol):
    """Called on the event loop, between two events."""

    def committed(self, high_watermark: int) -> None: ...
    def leader_is(self, epoch: int, leader_id: int | None) -> None: ...
    def restored(self) -> None:
        """The log begins with another snapshot now."""

    def failed(self, error: Exception) -> None:
        """The node can't go on."""


class QuorumDriver:
    def __init__(
        self,
        me: Voter,
        configured: VoterSet,
        metadata_log: MetadataLog,
        peers: Peers,
        limits: QuorumLimits,
        listener: Listener,
        *,
        cluster_id: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        self._me = me
        self._log = metadata_log
        self._peers = peers
        self._limits = limits
        self._listener = listener
        self._cluster_id = cluster_id
        self._wall_now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self.core = Quorum(
            me, configured, metadata_log.load_state(), metadata_log.log, limits, jitter=random.randint
        )
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._effects: deque[Effect] = deque()
        self._records: Buffer = b""  # of the fetch response that is being handled
        self._answers: dict[int, asyncio.Future[VoteResponse | FetchResponse]] = {}
        self._tokens = 0
        self._configured = configured
        self._foreign: set[int] = set()
        """Controllers that say they are of another cluster."""
        self._is_ending = False
        self._votes: dict[int, str] = {}
        """What became of the last request for a vote, by voter."""
        self._waiting_from: float | None = None
        self._has_complained = False
        self._stood_still: StandStill | None = None
        self._note_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._sends: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        if self._log.snapshot is not None:
            self.core.restored(self._log.snapshot.end, self._log.snapshot.voters)
        self.core.noted(self._log.noted_high_watermark())
        for offset, entry in self._log.control_entries(self._log.replay_offset, self._log.end_offset):
            self.core.appended(offset, entry)
        voters, configured = set(self.core.voters.seats), set(self._configured.seats)
        # Some may be missing: they came with new disks, and are about to be admitted again.
        missing = configured - voters - self.core.voters.given_up
        if not voters <= configured or len(missing) > 1:
            raise StorageError(
                f"this node's data belong to a cluster with the controllers {sorted(self.core.voters.seats)};"
                f" its file names {sorted(self._configured.seats)}"
            )
        self._put(self.core.start)
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Give up leadership so that another can take it at once, then end."""
        if self._task is None or self._is_ending:
            return
        self._put(self.core.resign)
        self._put(self._end)
        await asyncio.gather(self._task, return_exceptions=True)  # never in the middle of a write
        if self._note_timer is not None:
            self._note_timer.cancel()
            self._note()
        if self._sends:
            await asyncio.wait(self._sends, timeout=0.2)
        for send in tuple(self._sends):
            send.cancel()
        await asyncio.gather(*self._sends, return_exceptions=True)

    def _end(self, _now_ms: int) -> list[Effect]:
        self._is_ending = True
        return []

    # What others ask

    async def vote(self, request: VoteRequest) -> Body:
        answer = await self._ask_core(lambda token, now_ms: self.core.vote_request(token, request, now_ms))
        assert isinstance(answer, VoteResponse)
        return quorum_wire.vote_answer(answer)

    async def fetch(self, request: FetchRequest) -> Body:
        answer = await self._ask_core(lambda token, now_ms: self.core.fetch_request(token, request, now_ms))
        assert isinstance(answer, FetchResponse)
        has_data = not answer.is_refused and answer.diverging is None and answer.snapshot is None
        return quorum_wire.fetch_answer(answer, self._log.read(answer.start_offset) if has_data else b"")

    def hear(self, event: Event) -> None:
        """A message that needs no answer from the core."""
        self._put(event)

    async def _ask_core(self, request: Callable[[int, int], list[Effect]]) -> VoteResponse | FetchResponse:
        if self._events.qsize() >= EVENTS_MAX:
            raise ApiError(ErrorCode.broker_not_available)
        self._tokens += 1
        token = self._tokens
        answer: asyncio.Future[VoteResponse | FetchResponse] = self._loop.create_future()
        self._answers[token] = answer
        self._put(lambda now_ms: request(token, now_ms))
        try:
            return await answer
        finally:
            self._answers.pop(token, None)

    async def append(self, records: Sequence[MetadataRecord]) -> tuple[int, int]:
        """Write a batch as the leader: (its epoch, its end offset). On disk here; committed later."""
        written: asyncio.Future[tuple[int, int]] = self._loop.create_future()

        def event(_now_ms: int) -> list[Effect]:
            if written.done():
                return []
            if not self.core.takes_entries:
                written.set_exception(ApiError(ErrorCode.not_controller))
                return []
            epoch = self.core.epoch
            try:
                base_offset = self._log.append(records, epoch=epoch, now_ms=self._wall_now_ms())
            except StorageError as error:
                written.set_exception(error)
                return []
            written.set_result((epoch, base_offset + len(records)))
            return [_FLUSH]

        self._put(event)
        return await written

    # The loop

    def _put(self, event: Event) -> None:
        self._events.put_nowait(event)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    async def _run(self) -> None:
        try:
            while not self._is_ending:
                event = await self._next_event()
                self._effects += event(self._now_ms())
                while self._effects:
                    await self._carry_out(self._effects.popleft())
                self._maybe_complain()
        except (StorageError, AssertionError) as error:
            self._listener.failed(error)
        except Exception as error:
            log.exception("the quorum's driver has failed")
            self._listener.failed(error)

    def _maybe_complain(self) -> None:
        """Say, once in a while without a leader or a vote of its own, what this node waits for."""
        is_leaderless = self.core.is_voter and self.core.leader_id is None
        is_kept_out = not self.core.is_voter and self._me.node_id in self.core.voters.seats
        if not is_leaderless and not is_kept_out:
            self._waiting_from, self._has_complained = None, False
            return
        now_s = self._loop.time()
        if self._waiting_from is None:
            self._waiting_from = now_s
        elif not self._has_complained and now_s - self._waiting_from >= WAITING_S_MAX:
            self._has_complained = True
            if is_leaderless:
                self._complain_of_votes()
            else:
                log.warning(
                    "metadata: the vote of controller %d belongs to another disk, and this node gets it when"
                    " that is out of use. Does another process run under the same id?",
                    self._me.node_id,
                )

    def _complain_of_votes(self) -> None:
        others = [node_id for node_id in self.core.voters.seats if node_id != self._me.node_id]
        told = ", ".join(f"{node_id} {self._votes.get(node_id, 'was not asked yet')}" for node_id in others)
        log.warning(
            "metadata: no leader for %d s; of %d controllers %d must vote for one: %s. If most have lost"
            " their disks for good: penstock cluster recover controllers",
            WAITING_S_MAX, len(others) + 1, self.core.votes_needed, told,
        )  # fmt: skip

    async def _next_event(self) -> Event:
        if self._events.empty():
            wait_s = max(0.0, self.core.next_deadline_ms / 1000 - self._loop.time())
            try:
                async with asyncio.timeout(min(wait_s + 0.001, 3600)):
                    return await self._events.get()
            except TimeoutError:
                return self.core.tick
        return self._events.get_nowait()

    async def _carry_out(self, effect: Effect | _Flush) -> None:
        match effect:
            case Persist(state):
                self._log.store_state(state)
            case Send(to, message):
                send = self._loop.create_task(self._send(to, message))
                self._sends.add(send)
                send.add_done_callback(self._sends.discard)
            case Answer(token, response):
                answer = self._answers.get(token)
                if answer is not None and not answer.done():
                    answer.set_result(response)
            case Append(entry):
                offset = self._log.append(
                    [record_of(entry)], epoch=self.core.epoch, now_ms=self._wall_now_ms()
                )
                self.core.appended(offset, entry)
                await self._flush()
            case AppendFetched():
                await self._append_fetched()
            case Truncate(offset):
                self._log.truncate(offset)
                await self._flush()
            case LoadSnapshot(leader_id, end):
                await self._load_snapshot(leader_id, end)
            case StandStill():
                self._stand_still(effect)
            case LeaderIs(epoch, leader_id):
                self._listener.leader_is(epoch, leader_id)
            case Committed(high_watermark):
                self._listener.committed(high_watermark)
                self._note_soon()
            case _Flush():
                await self._flush()
            case _:
                raise AssertionError(f"nobody knows how to do {effect}")

    def _stand_still(self, effect: StandStill) -> None:
        if effect == self._stood_still:
            return  # said already
        self._stood_still = effect
        log.error(
            "metadata: node %d leads, and its log agrees with this node's up to offset %d only; all up to %d"
            " is committed. Nothing is given up: this node waits for a leader that has it",
            effect.leader_id, effect.offset, effect.high_watermark,
        )  # fmt: skip

    def _note_soon(self) -> None:
        """Not at every commit: the note is what the next process knows before a leader tells it.

        A node that is alone is its own leader, and needs none.
        """
        if self._note_timer is None and len(self._configured.seats) > 1:
            self._note_timer = self._loop.call_later(NOTE_S, self._note)

    def _note(self) -> None:
        self._note_timer = None
        try:
            self._log.note_high_watermark(self.core.high_watermark)
        except StorageError as error:  # a database may be away; that the log itself fails is told by others
            log.warning("metadata: what is committed cannot be noted: %s", error)
            if not self._is_ending:
                self._note_soon()

    async def _append_fetched(self) -> None:
        if len(self._records):
            offset = self._log.end_offset
            self._log.append_fetched(self._records, now_ms=self._wall_now_ms())
            self._records = b""
            await self._log.flush()
            for at, entry in self._log.control_entries(offset, self._log.end_offset):
                self.core.appended(at, entry)
        await self._flush()

    async def _flush(self) -> None:
        await self._log.flush()
        self._effects.extendleft(reversed(self.core.flushed(self._now_ms())))

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """Called by the listener, between two events."""
        self._log.take_snapshot(snapshot)
        self.core.snapshotted(snapshot.end)

    async def _load_snapshot(self, leader_id: int, end: LogEnd) -> None:
        """The core waits for it meanwhile; if it does not come, the core looks for a leader again."""
        try:
            data = await fetch_snapshot(self._peers, leader_id, end, self._cluster_id())
            snapshot = unpack_snapshot(data)
        except (PeerError, DecodeError, ApiError, StorageError) as error:
            log.warning("no snapshot from node %d: %s", leader_id, error)
            self._effects.extendleft(reversed(self.core.flushed(self._now_ms())))
            return
        self._log.load_snapshot(snapshot)
        log.info("metadata: loaded a snapshot of node %d, up to offset %d", leader_id, end.end_offset)
        await self._log.flush()
        self.core.restored(snapshot.end, snapshot.voters)
        self._listener.restored()
        await self._flush()

    # The network

    async def _send(self, to: int, message: Any) -> None:
        is_fetch = isinstance(message, FetchRequest)
        lane = Lane.METADATA if is_fetch else Lane.QUORUM
        key, version = quorum_wire.api_of(message)
        body = quorum_wire.request_body(message, self._cluster_id() or None, to)
        timeout_s = self._limits.request_ms_max / 1000 * (1 if self.core.is_voter else OBSERVER_PATIENCE)
        try:
            answer = await self._peers.ask(to, lane, key, version, body, timeout_s=timeout_s)
            self._answered(to, message, answer)
        except (PeerError, DecodeError, ApiError, IndexError) as error:
            log.debug("node %d: %s", to, error)
            if is_fetch:
                is_down = isinstance(error, PeerDownError)
                self._put(lambda now_ms: self.core.fetch_failed(now_ms, is_down=is_down))
            elif isinstance(message, VoteRequest):
                self._votes[to] = "does not answer"
                if isinstance(error, PeerDownError):
                    self._put(lambda now_ms: self.core.vote_failed(to, now_ms))

    def _answered(self, to: int, message: Any, answer: Any) -> None:
        if answer.error_code is ErrorCode.inconsistent_cluster_id:
            self._heard_of_another_cluster(to)
        self._foreign.discard(to)
        if answer.error_code is not ErrorCode.none:
            raise ApiError(answer.error_code)
        if isinstance(message, VoteRequest):
            vote = quorum_wire.read_vote_answer(answer, to, message)
            self._votes[to] = "agrees" if vote.is_granted else "refuses (another disk, or a log of its own)"
            self._put(lambda now_ms: self.core.vote_response(vote, now_ms))
        elif isinstance(message, FetchRequest):
            response, records = quorum_wire.read_fetch_answer(answer, message)

            def event(now_ms: int) -> list[Effect]:
                self._records = records
                return self.core.fetch_response(response, now_ms)

            self._put(event)

    def _heard_of_another_cluster(self, node_id: int) -> None:
        """One stranger at a controller's address is its own problem; if most are strangers, we are."""
        self._foreign.add(node_id)
        if len(self._foreign) >= self._configured.majority:
            strangers = ", ".join(map(str, sorted(self._foreign)))
            mine = self._cluster_id()
            self._listener.failed(
                StorageError(f"this node's data belong to cluster {mine}, and controllers {strangers} do not")
            )
        raise ApiError(ErrorCode.inconsistent_cluster_id, f"node {node_id} is of another cluster")


class _Flush:
    """An entry of the controller's own is in the log: bring it to disk."""


_FLUSH: Final[Any] = _Flush()
