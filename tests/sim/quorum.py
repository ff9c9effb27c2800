"""The quorum's core in a simulated world: nodes that crash, lose their disks, and do not hear each other.

The log is a list of entries with the core's own idea of epochs. What is checked after every step: one leader
per epoch, one value per committed offset, for ever and on every node; a watermark that never goes back; no
entry that was committed is missing from a leader elected later. At the end, with the faults over, the quorum
must commit again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.quorum.core import Quorum
from penstock.quorum.leadership import NEVER_MS
from penstock.quorum.limits import QuorumLimits
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
    VotersChange,
)
from penstock.quorum.voters import Voter, VoterSet
from penstock.replication.divergence import LogEnd
from penstock.storage.epochs import LeaderEpochs

if TYPE_CHECKING:
    from tests.sim.world import World

RESTLESS = QuorumLimits(
    election_ms_min=30,
    election_ms_max=60,
    fetch_wait_ms_max=10,
    resign_ms=90,
    announce_ms=20,
    retry_ms=5,
    request_ms_max=25,
)
"""Hardly longer than a message takes: there is nearly always an election, and often two at once."""


@dataclass(frozen=True)
class Value:
    """An entry of the driver's own."""

    number: int


Entry = tuple[int, ControlEntry | Value]  # with its epoch


@dataclass(frozen=True)
class Snapshot:
    end: LogEnd
    voters: VoterSet
    history: tuple[Entry, ...]
    """All entries before its end; a real one would hold what they amount to."""


@dataclass(frozen=True)
class Carried:
    """What a message has with it on the wire besides what the core reads."""

    fetch_id: int
    data: list[Entry] = field(default_factory=list)
    snapshot: Snapshot | None = None


class SimulatedLog:
    """What a node has on disk: entries from `log_start_offset` on, and the snapshot of those before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.log_start_offset = 0
        self.snapshot: Snapshot | None = None
        self.epochs = LeaderEpochs()

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.entries)

    flushed_end_offset = log_end_offset  # each effect is carried out to its end

    def append(self, entry: Entry) -> int:
        offset = self.log_end_offset
        self.epochs.assign(entry[0], offset)
        self.entries.append(entry)
        return offset

    def truncate(self, offset: int) -> None:
        del self.entries[offset - self.log_start_offset :]
        self.epochs.truncate_end(offset)

    def read(self, offset: int) -> list[Entry]:
        return self.entries[offset - self.log_start_offset :][:5]

    def prefix(self, end_offset: int) -> list[Entry]:
        before = list(self.snapshot.history) if self.snapshot else []
        return (before[: self.log_start_offset] + self.entries)[:end_offset]

    def take_snapshot(self, end_offset: int, voters: VoterSet) -> Snapshot:
        history = tuple(self.prefix(end_offset))
        self.snapshot = Snapshot(LogEnd(history[-1][0], end_offset), voters, history)
        del self.entries[: end_offset - self.log_start_offset]
        self.log_start_offset = end_offset
        return self.snapshot

    def load(self, snapshot: Snapshot) -> None:
        self.snapshot, self.entries = snapshot, []
        self.log_start_offset = snapshot.end.end_offset
        self.epochs = LeaderEpochs([(snapshot.end.last_epoch, snapshot.end.end_offset - 1)])


@dataclass
class Disk:
    storage_id: UUID
    log: SimulatedLog = field(default_factory=SimulatedLog)
    state: ElectionState = field(default_factory=ElectionState)


class Cluster:
    """The checker's view of all nodes, and the nodes."""

    def __init__(self, world: World, limits: QuorumLimits, voters: int, observers: int = 0) -> None:
        self.world = world
        self.limits = limits
        self.configured = VoterSet.of_ids(range(1, voters + 1))
        self.random = world.stream("nodes")
        self.starts = 0
        self.leaders: dict[int, int] = {}
        self.committed: list[Entry] = []
        self.node_ids = range(1, voters + observers + 1)
        self.disks = {node_id: self.new_disk() for node_id in self.node_ids}
        self.running: dict[int, Controller] = {}
        self.proposed = 0
        self.crash_rate = 0.0
        """How likely a node dies before an effect, in the middle of what it was doing."""
        self.restart_ms_max = 100

    def new_disk(self) -> Disk:
        return Disk(UUID(int=self.random.getrandbits(128)))

    def start(self, node_id: int) -> None:
        if node_id in self.running:
            return
        self.world.note(f"{node_id} starts")
        self.starts += 1
        self.running[node_id] = Controller(self, node_id, self.disks[node_id])
        self.running[node_id].begin()

    def crash(self, node_id: int) -> None:
        self.world.note(f"{node_id} crashes")
        node = self.running.pop(node_id)
        node.is_up = False
        self.world.after(node.random.randint(1, self.restart_ms_max), lambda: self.start(node_id))

    def wipe(self, node_id: int) -> None:
        self.world.note(f"{node_id} loses its disk")
        self.disks[node_id] = self.new_disk()

    # Checks

    def every_seat_is_taken(self) -> bool:
        """On a majority of disks: every voter that the log names is one of the disks of now."""
        for node in self.running.values():
            if node.core.is_leader and node.core.takes_entries:
                seats = {seat: self.disks[seat].storage_id for seat in self.configured.seats}
                is_flushed = node.core.high_watermark == node.disk.log.log_end_offset
                return node.core.voters.seats == seats and is_flushed
        return False

    def check_leader(self, node_id: int, epoch: int) -> None:
        assert self.leaders.setdefault(epoch, node_id) == node_id, f"two leaders in epoch {epoch}"
        held = self.disks[node_id].log.prefix(len(self.committed))
        assert held == self.committed, f"{node_id} leads epoch {epoch} without all that is committed"

    def check_committed(self, node_id: int, high_watermark: int) -> None:
        prefix = self.disks[node_id].log.prefix(high_watermark)
        assert len(prefix) == high_watermark, f"{node_id} commits {high_watermark} and has {len(prefix)}"
        common = min(len(prefix), len(self.committed))
        assert prefix[:common] == self.committed[:common], f"{node_id} commits something else"
        self.committed += prefix[common:]


class Controller:
    """The driver: carries out effects at once and in order, and may die between any two of them."""

    def __init__(self, cluster: Cluster, node_id: int, disk: Disk) -> None:
        self.cluster, self.world, self.disk = cluster, cluster.world, disk
        self.node_id = node_id
        self.random = self.world.stream(f"node {node_id}, start {cluster.starts}")
        self.is_up = True
        self.high_watermark = 0
        self.fetched: list[Entry] = []
        self.snapshot: Snapshot | None = None
        self.answers: dict[int, tuple[int, int, int]] = {}
        self.fetch_id = 0
        self.token = 0
        self.wakes_up_at = NEVER_MS
        self.core = Quorum(
            Voter(node_id, disk.storage_id),
            cluster.configured,
            disk.state,
            disk.log,
            cluster.limits,
            jitter=self.random.randint,
        )
        if disk.log.snapshot is not None:
            self.core.restored(disk.log.snapshot.end, disk.log.snapshot.voters)
        for offset, (_, entry) in enumerate(disk.log.entries, disk.log.log_start_offset):
            if not isinstance(entry, Value):
                self.core.appended(offset, entry)

    def begin(self) -> None:
        self.carry_out(self.core.start(self.world.now_ms))
        self.schedule()

    # Events

    def wake_up(self) -> None:
        if self.is_up and self.world.now_ms == self.wakes_up_at:  # not one that an earlier one replaced
            self.wakes_up_at = NEVER_MS
            if self.world.now_ms >= self.core.next_deadline_ms:
                self.carry_out(self.core.tick(self.world.now_ms))
            self.schedule()

    def schedule(self) -> None:
        if not self.is_up:
            return
        deadline_ms = max(self.core.next_deadline_ms, self.world.now_ms)
        if deadline_ms < self.wakes_up_at and deadline_ms < NEVER_MS:
            self.wakes_up_at = deadline_ms
            self.world.after(deadline_ms - self.world.now_ms, self.wake_up)

    def receive(self, source: int, message: Message, carried: Carried) -> None:
        if not self.is_up or (isinstance(message, FetchResponse) and carried.fetch_id != self.fetch_id):
            return  # connections match answers to requests: of one that was given up, none comes
        now_ms, core = self.world.now_ms, self.core
        self.fetched, self.snapshot = carried.data, carried.snapshot
        self.token += 1
        if isinstance(message, VoteRequest | FetchRequest):
            offset = message.offset if isinstance(message, FetchRequest) else 0
            self.answers[self.token] = (source, offset, carried.fetch_id)
        match message:
            case VoteRequest():
                effects = core.vote_request(self.token, message, now_ms)
            case VoteResponse():
                effects = core.vote_response(message, now_ms)
            case BeginQuorumEpoch():
                effects = core.begin_epoch(message, now_ms)
            case EndQuorumEpoch():
                effects = core.end_epoch(message, now_ms)
            case FetchRequest():
                effects = core.fetch_request(self.token, message, now_ms)
            case FetchResponse():
                effects = core.fetch_response(message, now_ms)
        self.carry_out(effects)
        self.schedule()

    def propose(self) -> None:
        if self.core.takes_entries:
            self.cluster.proposed += 1
            self.append(Value(self.cluster.proposed))
            self.carry_out(self.core.flushed(self.world.now_ms))
            self.schedule()

    def maybe_snapshot(self) -> None:
        """Of what is committed, some of it kept in the log as real nodes do."""
        log, core = self.disk.log, self.core
        end_offset = core.high_watermark
        if end_offset > log.log_start_offset + 3 and not isinstance(
            log.prefix(end_offset)[-1][1], VotersChange
        ):
            voters = core.voters
            changes = [entry for _, entry in log.prefix(end_offset) if isinstance(entry, VotersChange)]
            if changes and changes[-1].voters == voters:  # the latest is committed
                core.restored(log.take_snapshot(end_offset, voters).end, voters)

    # Effects

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if not self.is_up:
                return
            if self.random.random() < self.cluster.crash_rate:
                self.cluster.crash(self.node_id)
                return
            self.carry_out_one(effect)

    def carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                self.disk.state = state
            case Send(to, message):
                self.fetch_id += isinstance(message, FetchRequest)
                self.transmit(to, message, Carried(self.fetch_id))
            case Answer(token, response):
                self.answer(token, response)
            case Append(entry):
                self.append(entry)
                self.carry_out(self.core.flushed(self.world.now_ms))
            case AppendFetched():
                for epoch, entry in self.fetched:
                    self.append(entry, epoch)
                self.carry_out(self.core.flushed(self.world.now_ms))
            case Truncate(offset):
                self.world.note(f"{self.node_id} truncates to {offset}")
                self.disk.log.truncate(offset)
                self.carry_out(self.core.flushed(self.world.now_ms))
            case LoadSnapshot():
                assert self.snapshot is not None
                self.disk.log.load(self.snapshot)
                self.core.restored(self.snapshot.end, self.snapshot.voters)
                self.carry_out(self.core.flushed(self.world.now_ms))
            case StandStill(leader_id, offset, committed):
                raise AssertionError(
                    f"{leader_id} leads, agrees up to {offset}, and {committed} is committed"
                )
            case LeaderIs(epoch, leader_id):
                if leader_id == self.node_id:
                    self.world.note(f"{self.node_id} leads epoch {epoch}")
                    self.cluster.check_leader(self.node_id, epoch)
            case Committed(high_watermark):
                assert high_watermark > self.high_watermark
                self.high_watermark = high_watermark
                self.cluster.check_committed(self.node_id, high_watermark)

    def append(self, entry: ControlEntry | Value, epoch: int | None = None) -> None:
        offset = self.disk.log.append((self.core.epoch if epoch is None else epoch, entry))
        if not isinstance(entry, Value):
            self.core.appended(offset, entry)

    def answer(self, token: int, response: VoteResponse | FetchResponse) -> None:
        source, offset, fetch_id = self.answers.pop(token)
        carried = Carried(fetch_id)
        if isinstance(response, FetchResponse) and not response.is_refused and response.diverging is None:
            if response.snapshot is not None:
                carried = Carried(fetch_id, snapshot=self.disk.log.snapshot)
            else:
                carried = Carried(fetch_id, self.disk.log.read(offset))
        self.transmit(source, response, carried)

    def transmit(self, to: int, message: Message, carried: Carried) -> None:
        def deliver() -> None:
            node = self.cluster.running.get(to)
            if node is not None:
                node.receive(self.node_id, message, carried)

        self.world.send(self.node_id, to, deliver)
