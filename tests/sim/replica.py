"""One replica on one broker of the simulated cluster: it leads, follows, or waits to be told what to do.

A role begins when all that is queued is on disk, the first offset of its own epoch included if it leads, and
ends at once when the metadata has another leader epoch. Of a role that ended, nothing that was under way
counts, except that a flush goes on to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

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
from penstock.storage.producers import BATCHES_KEPT
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import NO_PRODUCER_ID, read_header
from tests.sim.controller import CONTROLLER

if TYPE_CHECKING:
    from random import Random

    from penstock.metadata.image import PartitionImage
    from penstock.storage import FlushJob, PartitionLog
    from tests.sim.broker import Broker, Fetched, Produced
    from tests.sim.truth import Message

FETCH_BYTES = 1000
"""Several batches."""


def state_of(image: PartitionImage) -> PartitionState:
    return PartitionState(image.leader, image.leader_epoch, image.partition_epoch, image.replicas, image.isr)


class WaitingFetch(NamedTuple):
    offset: int
    deadline_ms: int
    reply: Fetched


class WaitingProduce(NamedTuple):
    end_offset: int
    base_offset: int
    messages: list[Message]
    reply: Produced


class Replica:
    def __init__(self, broker: Broker, index: int, log: PartitionLog, high_watermark: int) -> None:
        self.broker, self.cluster, self.world = broker, broker.cluster, broker.world
        self.index, self.log = index, log
        self.truth = self.cluster.truths[index]
        self.who = f"{broker.broker_id} (partition {index})"
        self.state: PartitionState | None = None
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.high_watermark = max(min(high_watermark, log.flushed_end_offset), log.log_start_offset)
        self.checked = log.flushed_end_offset
        self.produced: list[WaitingProduce] = []
        self.fetches: dict[int, WaitingFetch] = {}
        self.told: dict[int, int] = {}
        self.fetch_id = 0
        self.is_closed = False
        self.when_idle: Callable[[], None] | None = None
        self.truth.holds(self.who, log, min(self.high_watermark, len(self.truth.committed)))

    # Roles

    def apply(self, image: PartitionImage) -> None:
        state = state_of(image)
        if self.is_closed:
            return
        if self.state is not None and state.leader_epoch == self.state.leader_epoch:
            self.state = state
            if self.leader is not None and self.leader.changed(state):
                self.advanced()
            elif self.follower is not None:
                self.follower.state = state
            return
        before = self.state
        leads_on = (
            before is not None
            and before.leader == state.leader
            and before.leader_epoch + 1 == state.leader_epoch
        )
        self.resign(leads_on=leads_on)
        self.state = state
        self.begin_role()

    def resign(self, *, leads_on: bool = False) -> None:
        self.leader = self.follower = None
        self.fetch_id += 1
        if not leads_on:
            for waiting in self.produced:
                waiting.reply(ErrorCode.not_leader_or_follower, -1)
            self.produced = []
        for fetch in self.fetches.values():
            fetch.reply(ReplicaAnswer(ErrorCode.not_leader_or_follower), b"")
        self.fetches, self.told = {}, {}

    def begin_role(self) -> None:
        state, me = self.state, self.broker.broker_id
        if state is None or state.leader < 0 or self.log.is_flushing:
            return
        if state.leader == me:
            self.log.begin_epoch(state.leader_epoch)
        if self.flush():
            return
        if state.leader == me:
            self.lead(state)
        else:
            self.follower = PartitionFollower(me, state, self.log, self.high_watermark)
            self.fetch()

    def lead(self, state: PartitionState) -> None:
        settings = self.broker.settings
        self.leader = PartitionLeader(
            self.broker.broker_id,
            state,
            self.log,
            high_watermark=self.high_watermark,
            min_insync_replicas=self.broker.minimum,
            lag_ms_max=settings.lag_ms_max,
            now_ms=self.broker.now_ms,
        )
        self.world.note(f"{self.who} leads epoch {state.leader_epoch} from {self.log.log_end_offset}")
        self.truth.leads(self.broker.broker_id, self.broker.incarnation, state.leader_epoch, self.log)
        self.leader.advance()
        self.advanced()

    def reconfigure(self, min_insync_replicas: int) -> None:
        if self.leader is not None:
            self.leader.min_insync_replicas = min_insync_replicas
            if self.leader.advance():
                self.advanced()

    def close(self, when_idle: Callable[[], None]) -> None:
        """Refuse what is new, and tell when nothing is on its way to the disk any more."""
        self.is_closed = True
        self.follower = None
        self.fetch_id += 1
        self.when_idle = when_idle
        self.flush()
        self.maybe_end()

    @property
    def is_busy(self) -> bool:
        return self.log.is_flushing or self.log.flushed_end_offset < self.log.log_end_offset

    def maybe_end(self) -> None:
        if self.when_idle is not None and not self.is_busy:
            self.resign()
            when_idle, self.when_idle = self.when_idle, None
            when_idle()

    def advanced(self) -> None:
        """After whatever may have moved the high watermark or the end of the log."""
        role = self.leader or self.follower
        assert role is not None
        if role.high_watermark != self.high_watermark:
            before, self.high_watermark = self.high_watermark, role.high_watermark
            self.detail(f"has the high watermark {self.high_watermark}")
            assert before < self.high_watermark, f"the high watermark of {self.who} goes back"
            leader_epoch = role.state.leader_epoch
            if self.truth.commits(self.who, self.log, before, self.high_watermark, leader_epoch):
                self.cluster.check_in_sync()
        if self.leader is not None:
            self.acknowledge()
            self.answer_fetches()
        elif self.follower is not None and self.follower.log_start_offset > self.log.log_start_offset:
            self.log.delete_records_before(self.follower.log_start_offset)

    # Deletion

    def delete_records(self, random: Random) -> None:
        """Some of what is committed, if this is the leader; perhaps up to the middle of a batch."""
        start = self.log.log_start_offset
        if self.leader is not None and not self.is_closed and (bound := self.deletable()) > start:
            offset = random.randint(start + 1, bound)
            self.deleted(offset)
            self.log.delete_records_before(offset)

    def apply_retention(self) -> None:
        """Each replica does so on its own."""
        if self.is_closed:
            return
        before = self.log.log_start_offset
        try:
            self.log.apply_retention(now_ms=self.broker.now_ms, high_watermark=self.deletable())
        finally:  # the process may die of it
            if self.log.log_start_offset > before:
                self.deleted(self.log.log_start_offset)

    def deletable(self) -> int:
        """Where the log may start at most.

        The last committed batches of each producer stay. A replica that begins anew has them from the log
        alone, and could not tell a copy of one that is gone from a new one.
        """
        kept: dict[int, deque[int]] = {}
        for header, _ in self.log.batches(0, self.high_watermark):
            kept.setdefault(header.producer_id, deque(maxlen=BATCHES_KEPT)).append(header.base_offset)
        kept.pop(NO_PRODUCER_ID, None)
        return min((offsets[0] for offsets in kept.values()), default=self.high_watermark)

    def deleted(self, offset: int) -> None:
        self.world.note(f"{self.who} deletes what is before {offset}")
        self.truth.deleted = max(self.truth.deleted, offset)

    # Disk

    def flush(self) -> bool:
        """Whether there was something to write; `flushed` comes when that is done."""
        job = self.log.take_flush()
        if job is None:
            return False
        delay_ms = self.broker.random.randint(0, self.broker.settings.flush_ms_max)
        self.broker.after(delay_ms, lambda: self.flushed(job))
        return True

    def flushed(self, job: FlushJob) -> None:
        job.run()
        self.log.finish_flush(job)
        assert self.log.error is None, self.log.error
        self.truth.appended(self.who, self.log, self.checked)
        self.checked = self.log.flushed_end_offset
        self.detail(f"has flushed up to {self.checked}")
        if self.leader is not None:
            self.leader.advance()
            self.advanced()
            self.flush()
        elif self.follower is not None:
            self.follower.flushed()
            self.advanced()
            self.fetch()
        elif self.is_closed:
            self.flush()
        else:
            self.begin_role()
        self.maybe_end()

    # Leading

    def produce(self, messages: list[Message], batch: bytes, reply: Produced) -> None:
        if self.leader is None or self.is_closed:
            reply(ErrorCode.not_leader_or_follower, -1)
            return
        if not self.leader.takes_acks_all(self.broker.live, self.broker.now_ms):
            reply(ErrorCode.not_enough_replicas, -1)
            return
        header = read_header(batch)
        try:
            duplicate = self.log.producers.check(header)
        except ApiError as error:
            reply(error.code, -1)
            return
        if duplicate is not None:
            base_offset = duplicate.base_offset
        else:
            base_offset = self.append(batch)
        self.produced.append(WaitingProduce(base_offset + len(messages), base_offset, messages, reply))
        self.acknowledge()

    def append(self, batch: bytes) -> int:
        if self.leader is None or self.is_closed:
            return -1
        base_offset = self.log.append(
            batch,
            read_header(batch),
            leader_epoch=self.leader.state.leader_epoch,
            now_ms=self.broker.now_ms,
        )
        self.detail(f"appends at {base_offset} in epoch {self.leader.state.leader_epoch}")
        self.flush()
        return base_offset

    def acknowledge(self) -> None:
        done = [waiting for waiting in self.produced if waiting.end_offset <= self.high_watermark]
        if done:
            self.produced = [waiting for waiting in self.produced if waiting.end_offset > self.high_watermark]
        for waiting in done:
            self.truth.acknowledged(waiting.messages, waiting.base_offset)
            waiting.reply(ErrorCode.none, waiting.base_offset)

    def serve_fetch(self, replica: Member, fetch: ReplicaFetch, reply: Fetched) -> None:
        leader = self.leader
        if leader is None:
            reply(ReplicaAnswer(ErrorCode.not_leader_or_follower), b"")
            return
        refusal = leader.maybe_refuse(replica, fetch)
        if refusal is not None:
            reply(refusal, b"")
            return
        now_ms = self.broker.now_ms
        moved = leader.fetched(
            replica.broker_id, replica.broker_epoch, fetch.offset, now_ms, fetch.log_start_offset
        )
        earlier = self.fetches.pop(replica.broker_id, None)
        if earlier is not None:
            earlier.reply(leader.answer(has_records=False), b"")
        deadline_ms = now_ms + self.broker.settings.fetch_wait_ms_max
        self.fetches[replica.broker_id] = WaitingFetch(fetch.offset, deadline_ms, reply)
        if moved:
            self.advanced()
        else:
            self.answer_fetches()
        self.propose()

    def answer_fetches(self) -> None:
        assert self.leader is not None
        for broker_id, fetch in list(self.fetches.items()):
            is_news = self.log.flushed_end_offset > fetch.offset
            is_news |= self.told.get(broker_id, -1) < self.high_watermark
            if is_news or self.broker.now_ms >= fetch.deadline_ms:
                del self.fetches[broker_id]
                self.told[broker_id] = self.high_watermark
                data = bytes(self.log.read(fetch.offset, FETCH_BYTES, end_offset=self.log.flushed_end_offset))
                fetch.reply(self.leader.answer(has_records=bool(data)), data)

    def tick(self) -> None:
        if self.leader is not None:
            self.answer_fetches()
            self.propose()

    # The in-sync set

    def propose(self) -> None:
        assert self.leader is not None
        proposal = self.leader.maybe_propose(self.broker.broker_epoch_of, self.broker.now_ms)
        if proposal is not None:
            self.send_proposal(self.leader, proposal)

    def send_proposal(self, leader: PartitionLeader, proposal: Proposal) -> None:
        broker, controller = self.broker, self.cluster.controller

        def deliver() -> None:
            error, image = controller.alter_partition(
                broker.broker_id, broker.broker_epoch, self.index, proposal
            )
            broker.reply(CONTROLLER, lambda: self.decided(leader, proposal, error, image))

        def send_again() -> None:
            if self.leader is leader and leader.proposal is proposal:
                leader.propose_again()
                self.send_proposal(leader, proposal)

        self.world.send(broker.broker_id, CONTROLLER, deliver, may_double=False)
        broker.after(self.broker.settings.request_ms_max, send_again)

    def decided(
        self, leader: PartitionLeader, proposal: Proposal, error: ErrorCode, image: PartitionImage | None
    ) -> None:
        if self.leader is not leader:
            return
        if image is None:
            leader.refused(proposal, error)
        elif image.leader_epoch == leader.state.leader_epoch and leader.changed(state_of(image)):
            self.advanced()

    # Following

    def fetch(self) -> None:
        follower, broker = self.follower, self.broker
        assert follower is not None
        self.fetch_id += 1
        fetch_id, fetch = self.fetch_id, follower.next_fetch()
        self.detail(f"fetches from {follower.state.leader}, epoch {fetch.leader_epoch}: has {fetch.offset}")
        me = Member(broker.broker_id, broker.broker_epoch)
        leader_id = follower.state.leader

        def answered(answer: ReplicaAnswer, data: bytes) -> None:
            broker.reply(leader_id, lambda: self.fetched(fetch_id, answer, data))

        def give_up() -> None:
            if self.fetch_id == fetch_id:
                self.fetch()

        self.cluster.send(
            broker.broker_id, leader_id, lambda leader: leader.fetch(self.index, me, fetch, answered)
        )
        broker.after(broker.settings.request_ms_max, give_up)

    def fetched(self, fetch_id: int, answer: ReplicaAnswer, data: bytes) -> None:
        """Of a fetch that was given up, or of an earlier role, no answer is taken."""
        follower = self.follower
        if follower is None or fetch_id != self.fetch_id:
            return
        self.fetch_id += 1
        match follower.answered(answer):
            case AppendRecords():
                self.log.append_fetched(data, now_ms=self.broker.now_ms)
                self.flush()
            case TruncateTo(offset):
                self.truncate(follower, offset)
            case StartAt(offset):
                self.start_at(follower, offset)
            case FetchAgain():
                self.advanced()
                self.fetch()
            case Retry():
                self.fetch_later(self.broker.settings.retry_ms)
            case Stop():
                pass

    def truncate(self, follower: PartitionFollower, offset: int) -> None:
        self.world.note(f"{self.who} truncates from {self.log.log_end_offset} to {offset}")
        self.log.truncate_to(offset)
        self.changed(follower)

    def start_at(self, follower: PartitionFollower, offset: int) -> None:
        self.world.note(f"{self.who} begins anew at {offset}")
        self.log.restart_at(offset)
        self.changed(follower)

    def changed(self, follower: PartitionFollower) -> None:
        self.checked = self.log.flushed_end_offset
        follower.flushed()
        self.advanced()
        if not self.flush():
            self.fetch()

    def fetch_later(self, delay_ms: int) -> None:
        fetch_id = self.fetch_id

        def fetch() -> None:
            if self.fetch_id == fetch_id:
                self.fetch()

        self.broker.after(delay_ms, fetch)

    def detail(self, what: str) -> None:
        if self.world.is_detailed:
            self.world.note(f"{self.who} {what}")
