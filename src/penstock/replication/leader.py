"""The leader of a partition, in one leader epoch: who is in sync, and up to where all of them are.

Followers fetch. A fetch for offset n, in this leader epoch, says that the follower has all before n on disk
(`flush=commit`) or with its system (`flush=os`). The high watermark is the least of these over the in-sync
set, the leader's own end included, and only grows.

The set is the controller's. The leader proposes another one with the partition epoch that it knows, as a
compare-and-set, one proposal at a time. Until it is decided, the leader must be right either way: those it
wants to add count already, since they may be elected as soon as the controller has agreed, and those it wants
to remove count still, since they may be elected as long as it has not. A proposal ends by the controller's
answer or by a higher partition epoch, never by a timeout: an unanswered one may have been agreed to. And if
it was sent more than once, the answer to one copy does not say what becomes of the others: whom it named
counts until the partition epoch moves, for which the leader proposes anew, if need be the set that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch, maybe_refuse
from penstock.types import ErrorCode

if TYPE_CHECKING:
    from penstock.replication.divergence import LogView

BrokerEpochs = Callable[[int], int | None]
"""The epoch under which a broker is registered, if it may join an in-sync set: not fenced, not stopping."""

REFUSALS = (ErrorCode.ineligible_replica, ErrorCode.invalid_request, ErrorCode.not_enough_replicas)
"""With which the controller refuses a proposal for what it asks."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the metadata says of a partition."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Member(NamedTuple):
    """A replica in a proposal; the epoch keeps an earlier incarnation of it from being let in (KIP-903)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """An AlterPartition request."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[Member, ...]

    @property
    def broker_ids(self) -> frozenset[int]:
        return frozenset(member.broker_id for member in self.isr)


@dataclass(slots=True)
class Progress:
    """A follower as its fetches show it."""

    broker_epoch: int
    end_offset: int
    fetched_at_ms: int
    leader_end_offset: int
    """Ours, when it fetched."""
    caught_up_at_ms: int
    """When it last had all that we had."""
    log_start_offset: int = 0


class PartitionLeader:
    def __init__(
        self,
        me: int,
        state: PartitionState,
        log: LogView,
        *,
        high_watermark: int,
        min_insync_replicas: int,
        lag_ms_max: int,
        now_ms: int,
    ) -> None:
        """The first offset of the epoch must be on disk before. Then call `advance`: who is alone in sync
        has nobody's fetch to wait for."""
        assert state.leader == me
        self.state = state
        self.high_watermark = high_watermark
        self.min_insync_replicas = min_insync_replicas
        self.epoch_start_offset = log.log_end_offset
        self.proposal: Proposal | None = None
        self._me = me
        self._log = log
        self._lag_ms_max = lag_ms_max
        self._began_at_ms = now_ms
        self._followers: dict[int, Progress] = {}
        self._sent_again = False
        self._doubtful: frozenset[int] = frozenset()
        """Named in a proposal that was refused, of which another copy may yet be agreed to."""

    # Fetches

    def maybe_refuse(self, replica: Member, fetch: ReplicaFetch) -> ReplicaAnswer | None:
        """What a replica is answered if its fetch must not count; else call `fetched` and give it records."""
        before = self._followers.get(replica.broker_id)
        if replica.broker_id not in self.state.replicas or (
            before is not None and replica.broker_epoch < before.broker_epoch
        ):
            # Not one of ours as far as we know, or of a process that another one has replaced: what that one
            # had on disk says nothing of what this one has.
            return ReplicaAnswer(ErrorCode.not_leader_or_follower)
        return maybe_refuse(self.state.leader_epoch, self._log, self.high_watermark, fetch)

    def answer(self, *, has_records: bool) -> ReplicaAnswer:
        """To a fetch that is not refused, with what it is given."""
        return ReplicaAnswer(
            high_watermark=self.high_watermark,
            log_start_offset=self._log.log_start_offset,
            has_records=has_records,
        )

    def fetched(
        self, broker_id: int, broker_epoch: int, offset: int, now_ms: int, log_start_offset: int = 0
    ) -> bool:
        """A follower, in our epoch and in agreement with our log, asks for what comes from `offset` on.

        Returns whether the high watermark moved.
        """
        end_offset = self._log.log_end_offset
        before = self._followers.get(broker_id)
        if before is None or before.broker_epoch != broker_epoch:
            caught_up_at_ms = now_ms if offset >= end_offset else self._began_at_ms
        elif offset >= end_offset:
            caught_up_at_ms = now_ms
        elif offset >= before.leader_end_offset:
            # It has what we had when it fetched the last time; more came meanwhile.
            caught_up_at_ms = max(before.caught_up_at_ms, before.fetched_at_ms)
        else:
            caught_up_at_ms = before.caught_up_at_ms
        self._followers[broker_id] = Progress(
            broker_epoch, offset, now_ms, end_offset, caught_up_at_ms, log_start_offset
        )
        return self.advance()

    def advance(self) -> bool:
        """After a fetch, a flush of our own or a change of the set: whether the high watermark moved."""
        if len(self.state.isr) < self.min_insync_replicas:
            return False  # too few to call anything committed
        end_offset = min(map(self.end_offset_of, self._counted()))
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        return True

    def _counted(self) -> frozenset[int]:
        """The largest set that may be the in-sync set at this moment."""
        proposed = self.proposal.broker_ids if self.proposal is not None else frozenset()
        return proposed | self._doubtful | frozenset(self.state.isr)

    def end_offset_of(self, broker_id: int) -> int:
        """All before is on that replica, as far as we know; -1 if we know nothing of it."""
        if broker_id == self._me:
            return self._log.flushed_end_offset
        progress = self._followers.get(broker_id)
        return -1 if progress is None else progress.end_offset

    # What may be promised

    @property
    def serves_offsets(self) -> bool:
        """Nobody is told where the log ends before all that earlier leaders acknowledged is committed."""
        return self.high_watermark >= self.epoch_start_offset

    def takes_acks_all(self, live: Iterable[int], now_ms: int) -> bool:
        """Whether there are enough in-sync replicas for a write to be acknowledged by all of them.

        One that is alive and does not fetch any more may stay in the set because the minimum needs it: who
        waited for it would wait in vain.
        """
        fetching = [
            broker_id
            for broker_id in set(self.state.isr) & set(live)
            if self._silent_ms(broker_id, now_ms) <= self._lag_ms_max
        ]
        return len(fetching) >= self.min_insync_replicas

    def low_watermark(self, live: Iterable[int]) -> int:
        """Where the logs of all live replicas start at least: what is deleted before is gone on each."""
        starts = [
            0 if (progress := self._followers.get(broker_id)) is None else progress.log_start_offset
            for broker_id in set(self.state.replicas) & set(live)
            if broker_id != self._me
        ]
        return min([self._log.log_start_offset, *starts])

    # The in-sync set

    def maybe_propose(self, broker_epochs: BrokerEpochs, now_ms: int) -> Proposal | None:
        """Another in-sync set for the controller, unless one is under way or the present one is right."""
        if self.proposal is not None:
            return None
        joining = [
            broker_id
            for broker_id in self.state.replicas
            if broker_id not in self.state.isr and self._may_join(broker_id, broker_epochs(broker_id), now_ms)
        ]
        staying = self._staying(joining, now_ms)
        if not joining and len(staying) == len(self.state.isr) and not self._doubtful:
            return None
        members = [self._member(broker_id, broker_epochs) for broker_id in (*staying, *joining)]
        self.proposal = Proposal(self.state.leader_epoch, self.state.partition_epoch, tuple(members))
        self._sent_again = False
        return self.proposal

    def propose_again(self) -> Proposal | None:
        """The proposal under way, to be sent another time because no answer came, or none that decides."""
        self._sent_again = self.proposal is not None
        return self.proposal

    def _may_join(self, broker_id: int, broker_epoch: int | None, now_ms: int) -> bool:
        progress = self._followers.get(broker_id)
        if progress is None or broker_epoch != progress.broker_epoch:
            return False
        if self._lag_ms(broker_id, now_ms) > self._lag_ms_max:
            return False  # silent: where nothing is written it is not behind, and would come and go for ever
        return progress.end_offset >= max(self.high_watermark, self.epoch_start_offset)

    def _staying(self, joining: list[int], now_ms: int) -> list[int]:
        """Who of the set keeps up; of those who do not the least late, as far as the minimum needs them."""
        late = sorted(
            (broker_id for broker_id in self.state.isr if self._lag_ms(broker_id, now_ms) > self._lag_ms_max),
            key=lambda broker_id: -self._lag_ms(broker_id, now_ms),
        )
        spare = max(0, len(self.state.isr) + len(joining) - self.min_insync_replicas)
        leaving = late[:spare]
        return [broker_id for broker_id in self.state.isr if broker_id not in leaving]

    def _lag_ms(self, broker_id: int, now_ms: int) -> int:
        if broker_id == self._me:
            return 0
        progress = self._followers.get(broker_id)
        return now_ms - (self._began_at_ms if progress is None else progress.caught_up_at_ms)

    def _silent_ms(self, broker_id: int, now_ms: int) -> int:
        if broker_id == self._me:
            return 0
        progress = self._followers.get(broker_id)
        return now_ms - (self._began_at_ms if progress is None else progress.fetched_at_ms)

    def _member(self, broker_id: int, broker_epochs: BrokerEpochs) -> Member:
        progress = self._followers.get(broker_id)
        if progress is not None:
            return Member(broker_id, progress.broker_epoch)
        return Member(broker_id, broker_epochs(broker_id) or -1)

    def refused(self, proposal: Proposal, error: ErrorCode) -> bool:
        """The controller did not agree; whether that was the end of the proposal, else it is sent again.

        Only what the controller says of the members decides. Any other error may come because a copy of the
        proposal was agreed to before, of which the metadata will tell.
        """
        if proposal is not self.proposal or error not in REFUSALS:
            return False
        self.proposal = None
        if self._sent_again:
            self._doubtful |= proposal.broker_ids
        return True

    def changed(self, state: PartitionState) -> bool:
        """What the controller decided, as its answer or from the metadata; whether the high watermark moved.

        Only a higher partition epoch is news. Another leader epoch ends this object, and is not told to it.
        """
        assert state.leader_epoch == self.state.leader_epoch
        if state.partition_epoch <= self.state.partition_epoch:
            return False
        self.state = state
        self.proposal = None
        self._doubtful = frozenset()
        return self.advance()
