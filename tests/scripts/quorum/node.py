"""One node of a script: the real core, a disk, and a driver that carries out effects at once and in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.quorum.core import Quorum
from penstock.quorum.messages import (
    Answer,
    Append,
    AppendFetched,
    BeginQuorumEpoch,
    Committed,
    ControlEntry,
    Effect,
    ElectionState,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    LeaderIs,
    LoadSnapshot,
    Message,
    Persist,
    Send,
    StandStill,
    Truncate,
    VoteRequest,
    VoteResponse,
)
from penstock.quorum.voters import Voter, VoterSet
from penstock.replication.divergence import LogEnd
from tests.scripts.log import Entry, ScriptLog
from tests.scripts.quorum.show import Control, show_state

if TYPE_CHECKING:
    from uuid import UUID

    from tests.scripts.quorum.world import World


class Snapshot(NamedTuple):
    end: LogEnd
    voters: VoterSet
    history: list[Entry]
    """All entries before its end; a real one holds what they amount to."""


@dataclass
class Disk:
    storage_id: UUID
    log: ScriptLog = field(default_factory=ScriptLog)
    state: ElectionState = field(default_factory=ElectionState)
    snapshot: Snapshot | None = None
    noted_high_watermark: int = 0

    def prefix(self, end_offset: int) -> list[Entry]:
        before = self.snapshot.history if self.snapshot else []
        return (before[: self.log.log_start_offset] + self.log.entries)[:end_offset]


@dataclass(frozen=True)
class Envelope:
    """A message on its way, with what it carries besides what the core reads."""

    source: int
    to: int
    message: Message
    asker: Node
    """Whose request this is or answers: a process, on a connection that ends with it."""
    asked_at_ms: int
    entries: list[Entry] = field(default_factory=list)
    snapshot: Snapshot | None = None


class Node:
    def __init__(self, world: World, node_id: int, disk: Disk) -> None:
        self.world, self.node_id, self.disk = world, node_id, disk
        self.is_up = True
        self.is_paused = False
        self.requests: dict[int, Envelope] = {}
        self._received: Envelope | None = None
        self._tokens = 0
        self.core = Quorum(
            Voter(node_id, disk.storage_id),
            world.configured,
            disk.state,
            disk.log,
            world.limits,
            jitter=lambda low, high: min(high, low + world.jitter_ms[node_id]),
        )
        if disk.snapshot is not None:
            self.core.restored(disk.snapshot.end, disk.snapshot.voters)
        self.core.noted(disk.noted_high_watermark)
        self._tell_core(disk.snapshot.end.end_offset if disk.snapshot else 0)

    def _tell_core(self, from_offset: int) -> None:
        log = self.disk.log
        for offset, entry in enumerate(log.read(from_offset, log.log_end_offset), from_offset):
            if isinstance(entry.value, Control):
                self.core.appended(offset, entry.value.entry)

    def is_serving_fetch_of(self, asker: Node) -> bool:
        """A connection has one request served at a time, and fetches have one for themselves."""
        return any(
            each.asker is asker and isinstance(each.message, FetchRequest) for each in self.requests.values()
        )

    # Events

    def start(self) -> None:
        self.carry_out(self.core.start(self.world.now_ms))

    def tick(self) -> None:
        self.carry_out(self.core.tick(self.world.now_ms))

    def resign(self) -> None:
        self.carry_out(self.core.resign(self.world.now_ms))

    def append(self, values: list[str]) -> bool:
        if not self.core.takes_entries:
            return False
        for value in values:
            self.disk.log.append(Entry(self.core.epoch, value))
        self._flush()
        return True

    def snapshot(self) -> bool:
        """As MetadataLog: of what is committed; the log goes up to the snapshot before."""
        log, end_offset = self.disk.log, self.core.high_watermark
        voters = self.core.voters_at(end_offset)
        if voters is None:
            return False
        earlier = self.disk.snapshot.end.end_offset if self.disk.snapshot else 0
        end = LogEnd(log.epochs.epoch_at(end_offset - 1), end_offset)
        self.disk.snapshot = Snapshot(end, voters, self.disk.prefix(end_offset))
        log.delete_before(earlier)
        self.core.snapshotted(end)
        return True

    def receive(self, envelope: Envelope) -> None:
        now_ms, core, message = self.world.now_ms, self.core, envelope.message
        self._received = envelope
        if isinstance(message, VoteRequest | FetchRequest):
            self._tokens += 1
            self.requests[self._tokens] = envelope
        match message:
            case VoteRequest():
                effects = core.vote_request(self._tokens, message, now_ms)
            case VoteResponse():
                effects = core.vote_response(message, now_ms)
            case BeginQuorumEpoch():
                effects = core.begin_epoch(message, now_ms)
            case EndQuorumEpoch():
                effects = core.end_epoch(message, now_ms)
            case FetchRequest():
                effects = core.fetch_request(self._tokens, message, now_ms)
            case FetchResponse():
                effects = core.fetch_response(message, now_ms)
        self.carry_out(effects)

    def fetch_failed(self, *, is_down: bool) -> None:
        self.carry_out(self.core.fetch_failed(self.world.now_ms, is_down=is_down))

    def vote_failed(self, voter_id: int) -> None:
        self.carry_out(self.core.vote_failed(voter_id, self.world.now_ms))

    # Effects

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._carry_out_one(effect)

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                self.disk.state = state
                self.note(f"persists {show_state(state)}")
            case Send(to, message):
                self._send(Envelope(self.node_id, to, message, self, self.world.now_ms))
            case Answer(token, response):
                self._answer(self.requests.pop(token), response)
            case Append(entry):
                self._append(entry)
            case AppendFetched():
                self._append_fetched()
            case Truncate(offset):
                self.note(f"truncates {self.disk.log.log_end_offset} to {offset}")
                self.disk.log.truncate(offset)
                self._flush()
            case LoadSnapshot():
                self._load_snapshot()
            case StandStill(leader_id, offset, committed):
                self.note(
                    f"stands still: {leader_id} has its log up to {offset}, and {committed} is committed"
                )
            case LeaderIs(epoch, leader_id):
                if leader_id == self.node_id:
                    self.note(f"leads epoch {epoch}")
                    self.world.truth.leads(self.node_id, epoch, self.disk)
            case Committed(high_watermark):
                self.note(f"commits {high_watermark}")
                self.disk.noted_high_watermark = high_watermark
                self.world.truth.commits(self.node_id, high_watermark, self.disk)

    def _send(self, envelope: Envelope) -> None:
        self.world.truth.sends(envelope, self.disk.state)
        self.world.in_flight.append(envelope)

    def _answer(self, request: Envelope, response: VoteResponse | FetchResponse) -> None:
        entries: list[Entry] = []
        snapshot = None
        if isinstance(response, FetchResponse) and response.snapshot is not None:
            snapshot = self.disk.snapshot
        elif isinstance(response, FetchResponse) and not response.is_refused and response.diverging is None:
            log = self.disk.log
            end_offset = min(log.flushed_end_offset, response.start_offset + self.world.fetch_entries_max)
            entries = log.read(response.start_offset, end_offset)
        envelope = Envelope(
            self.node_id, request.source, response, request.asker, request.asked_at_ms, entries, snapshot
        )
        self.world.truth.answers(request, envelope, self.disk.state)
        self._send(envelope)

    def _append(self, entry: ControlEntry) -> None:
        value = Control(entry)
        self.note(f"appends {value}")
        self.core.appended(self.disk.log.append(Entry(self.core.epoch, value)), entry)
        self._flush()

    def _append_fetched(self) -> None:
        assert self._received is not None
        offset = self.disk.log.log_end_offset
        for entry in self._received.entries:
            self.disk.log.append(entry)
        self._tell_core(offset)
        self._flush()

    def _load_snapshot(self) -> None:
        assert self._received is not None
        snapshot = self._received.snapshot
        assert snapshot is not None
        self.note(f"loads the snapshot of {snapshot.end.end_offset}@{snapshot.end.last_epoch}")
        self.disk.snapshot = snapshot
        self.disk.log.restart_at(snapshot.end.end_offset)
        self.disk.log.begin_epoch(snapshot.end.last_epoch)
        self.core.restored(snapshot.end, snapshot.voters)
        self._flush()

    def _flush(self) -> None:
        self.disk.log.flush()
        self.carry_out(self.core.flushed(self.world.now_ms))

    def note(self, line: str) -> None:
        self.world.note(f"  {self.node_id} {line}")
