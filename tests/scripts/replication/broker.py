"""One broker of a script: a disk, and a process with the real core of a leader or a follower."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.replication.follower import (
    AppendRecords,
    FetchAgain,
    PartitionFollower,
    Retry,
    StartAt,
    Stop,
    TruncateTo,
)
from penstock.replication.leader import Member, PartitionLeader, PartitionState, Proposal
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
from penstock.types import ErrorCode
from tests.scripts.log import Entry, ScriptLog
from tests.scripts.replication.controller import TOPIC

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage, PartitionImage
    from tests.scripts.replication.world import World


def state_of(image: PartitionImage) -> PartitionState:
    return PartitionState(image.leader, image.leader_epoch, image.partition_epoch, image.replicas, image.isr)


@dataclass
class Disk:
    storage_id: UUID
    log: ScriptLog = field(default_factory=ScriptLog)


class Fetch(NamedTuple):
    """A replica's fetch on its way, for the role that sent it."""

    replica: Member
    follower: PartitionFollower
    request: ReplicaFetch


class Produced(NamedTuple):
    values: list[str]
    end_offset: int


class Broker:
    def __init__(self, world: World, broker_id: int, disk: Disk, incarnation: UUID) -> None:
        self.world, self.id, self.disk, self.incarnation = world, broker_id, disk, incarnation
        self.is_up = True
        self.epoch = -1
        self.image: MetadataImage | None = None
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.high_watermark = disk.log.log_start_offset
        self._state: PartitionState | None = None
        self._waiting: list[Produced] = []

    @property
    def log(self) -> ScriptLog:
        return self.disk.log

    @property
    def member(self) -> Member:
        return Member(self.id, self.epoch)

    def note(self, line: str) -> None:
        self.world.note(f"  {self.id} {line}")

    # Metadata

    def learn(self, image: MetadataImage) -> None:
        """What is said of an earlier process with this id is not for this one."""
        me = image.brokers.get(self.id)
        if me is None or me.incarnation != self.incarnation:
            return
        self.image = image
        state, before = state_of(image.topics[TOPIC].partitions[0]), self._state
        if self.id not in state.replicas:
            self._give_up(before)
            return
        self._state = state
        if before is None or state.leader_epoch != before.leader_epoch:
            self._take_role(state)
        elif self.leader is not None and self.leader.changed(state):
            self._advanced()
        elif self.follower is not None:
            self.follower.state = state

    def _give_up(self, before: PartitionState | None) -> None:
        """Its replica was moved to another broker."""
        self._state = self.leader = self.follower = None
        if before is not None:
            self.disk.log = ScriptLog()
            self.note("deletes its replica")

    def _take_role(self, state: PartitionState) -> None:
        self.leader = self.follower = None
        for produced in self._waiting:
            self.note(f"refuses {' '.join(produced.values)}: not_leader_or_follower")
        self._waiting = []
        if state.leader == self.id:
            self.log.begin_epoch(state.leader_epoch)
            self.log.flush()
            self.leader = PartitionLeader(
                self.id,
                state,
                self.log,
                high_watermark=self.high_watermark,
                min_insync_replicas=self.world.controller.min_insync_replicas,
                lag_ms_max=self.world.lag_ms_max,
                now_ms=self.world.now_ms,
            )
            self.note(f"leads epoch {state.leader_epoch} from {self.log.log_end_offset}")
            self.world.truth.leads(self.id, state.leader_epoch, self.log)
            self.leader.advance()
            self._advanced()
        elif state.leader >= 0:
            self.follower = PartitionFollower(self.id, state, self.log, self.high_watermark)
            self.note(f"follows {state.leader} in epoch {state.leader_epoch}")
            self._advanced()

    def _advanced(self) -> None:
        role = self.leader or self.follower
        assert role is not None
        before, self.high_watermark = self.high_watermark, role.high_watermark
        if self.high_watermark != before:
            self.note(f"high_watermark={self.high_watermark}")
            self.world.truth.commits(self.id, before, self.high_watermark, self.log)
        done = [produced for produced in self._waiting if produced.end_offset <= self.high_watermark]
        for produced in done:
            self._waiting.remove(produced)
            self.note(f"acknowledges {' '.join(produced.values)}")
        if self.follower is not None and self.follower.log_start_offset > self.log.log_start_offset:
            self.log.delete_before(self.follower.log_start_offset)
            self.note(f"deletes up to {self.log.log_start_offset}")

    def reconfigure(self, min_insync_replicas: int) -> None:
        if self.leader is not None:
            self.leader.min_insync_replicas = min_insync_replicas
            self.leader.advance()
            self._advanced()

    # Leading

    def produce(self, values: list[str], *, wants_all: bool) -> ErrorCode:
        if self.leader is None or self.image is None:
            return ErrorCode.not_leader_or_follower
        live = [broker.id for broker in self.image.live_brokers()]
        if wants_all and not self.leader.takes_acks_all(live, self.world.now_ms):
            return ErrorCode.not_enough_replicas
        for value in values:
            self.log.append(Entry(self.leader.state.leader_epoch, value))
        if wants_all:
            self._waiting.append(Produced(values, self.log.log_end_offset))
        return ErrorCode.none

    def flush(self) -> None:
        self.log.flush()
        if self.leader is not None:
            self.leader.advance()
            self._advanced()

    def delete_before(self, offset: int) -> None:
        self.log.delete_before(offset)

    def low_watermark(self) -> int:
        assert self.leader is not None
        assert self.image is not None
        return self.leader.low_watermark(broker.id for broker in self.image.live_brokers())

    def serve(self, fetch: Fetch) -> tuple[ReplicaAnswer, list[Entry]]:
        if self.leader is None:
            return ReplicaAnswer(ErrorCode.not_leader_or_follower), []
        refusal = self.leader.maybe_refuse(fetch.replica, fetch.request)
        if refusal is not None:
            return refusal, []
        request = fetch.request
        self.leader.fetched(*fetch.replica, request.offset, self.world.now_ms, request.log_start_offset)
        self._advanced()
        entries = self.log.read(request.offset, self.log.flushed_end_offset)[: self.world.fetch_entries_max]
        return self.leader.answer(has_records=bool(entries)), entries

    def maybe_propose(self) -> Proposal | None:
        assert self.leader is not None
        return self.leader.maybe_propose(self._broker_epoch_of, self.world.now_ms)

    def _broker_epoch_of(self, broker_id: int) -> int | None:
        assert self.image is not None
        broker = self.image.brokers.get(broker_id)
        return broker.epoch if broker is not None and broker.electable else None

    def decided(
        self, leader: PartitionLeader, proposal: Proposal, error: ErrorCode, image: PartitionImage | None
    ) -> None:
        if leader is not self.leader:
            self.note("does not lead that epoch any more")
        elif image is None:
            is_over = leader.refused(proposal, error)
            self.note("gives the proposal up" if is_over else "has the proposal under way still")
        elif image.leader_epoch == leader.state.leader_epoch:
            leader.changed(state_of(image))
            self._advanced()

    # Following

    def answered(self, fetch: Fetch, answer: ReplicaAnswer, entries: list[Entry]) -> None:
        follower = self.follower
        if follower is None or follower is not fetch.follower:
            self.note("takes no answer to an earlier epoch's fetch")
            return
        match follower.answered(answer):
            case AppendRecords():
                for entry in entries:
                    self.log.append(entry)
                self.log.flush()
            case TruncateTo(offset):
                self.note(f"truncates {self.log.log_end_offset} to {offset}")
                self.log.truncate(offset)
            case StartAt(offset):
                self.note(f"begins anew at {offset}")
                self.log.restart_at(offset)
            case FetchAgain():
                pass
            case Retry(error):
                self.note(f"will try again: {error.name}")
                return
            case Stop():
                self.note("waits for metadata of a later epoch")
                return
        follower.flushed()
        self._advanced()
