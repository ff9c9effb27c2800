"""The leader of an epoch: what it knows of the others, what is committed by that, and who may vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.quorum.limits import OBSERVER_PATIENCE
from penstock.quorum.messages import (
    Answer,
    Append,
    BeginQuorumEpoch,
    Bootstrapped,
    Committed,
    FetchRequest,
    FetchResponse,
    LeaderChange,
    Send,
    VotersChange,
)
from penstock.replication.divergence import LogEnd, maybe_divergence

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.quorum.node import Node
    from penstock.quorum.voters import Voter, VoterSet

NEVER_MS: Final = 1 << 62
REPLICAS_MAX: Final = 1000
"""Voters and observers that a leader keeps in mind; the one that has been silent longest goes first."""


@dataclass(slots=True)
class Progress:
    end_offset: int
    """All before it is on the replica's disk, and equal to the leader's log."""
    fetched_at_ms: int
    high_watermark_told: int = -1


class WaitingFetch(NamedTuple):
    token: int
    offset: int
    deadline_ms: int


class Leadership:
    def __init__(self, node: Node, now_ms: int) -> None:
        self._node = node
        self._epoch_start_offset = node.log.log_end_offset  # where our own first entry goes
        self._began_at_ms = now_ms
        self._replicas: dict[Voter, Progress] = {}
        self._waiting: dict[Voter, WaitingFetch] = {}
        self._next_announcement_ms = now_ms
        node.effects.append(Append(LeaderChange(node.me.node_id)))
        self._announce(now_ms)

    # Time

    @property
    def deadline_ms(self) -> int:
        waiting = (fetch.deadline_ms for fetch in self._waiting.values())
        announcement = self._next_announcement_ms if self._silent() else NEVER_MS
        return min([self.resign_at_ms, announcement, *waiting])

    @property
    def resign_at_ms(self) -> int:
        """When a majority has not fetched for too long: somebody else leads, or nobody should."""
        majority_without_me = self._node.voters.majority - 1
        if not majority_without_me:
            return NEVER_MS
        times = sorted(map(self._fetched_at_ms, self._node.others), reverse=True)
        return times[majority_without_me - 1] + self._node.limits.resign_ms

    def tick(self, now_ms: int) -> None:
        for replica, fetch in list(self._waiting.items()):
            if now_ms >= fetch.deadline_ms:
                self._answer(replica)
        if now_ms >= self._next_announcement_ms:
            self._announce(now_ms)

    def _announce(self, now_ms: int) -> None:
        self._next_announcement_ms = now_ms + self._node.limits.announce_ms
        for node_id in self._silent():
            storage_id = self._node.voters.seats[node_id]
            message = BeginQuorumEpoch(self._node.state.epoch, self._node.me.node_id, storage_id)
            self._node.effects.append(Send(node_id, message))

    def _silent(self) -> list[int]:
        """Voters that have not fetched in this epoch: they may not know who leads it."""
        heard = {replica.node_id for replica in self._replicas if replica in self._node.voters}
        return [node_id for node_id in self._node.others if node_id not in heard]

    # Fetches

    def fetch(self, token: int, request: FetchRequest, now_ms: int) -> None:
        node = self._node
        end = LogEnd(request.last_epoch, request.offset)
        if self._needs_snapshot(end):
            self._answer_now(token, FetchResponse(node.state.epoch, node.me.node_id, snapshot=node.snapshot))
            return
        diverging = maybe_divergence(node.log, end)
        if diverging is not None:
            self._answer_now(token, FetchResponse(node.state.epoch, node.me.node_id, diverging=diverging))
            return
        replica = request.replica
        if replica in self._waiting:
            self._answer(replica)  # it has given up the one before
        self._progressed(replica, request.offset, now_ms)
        patience = 1 if replica in node.voters else OBSERVER_PATIENCE
        deadline_ms = now_ms + node.limits.fetch_wait_ms_max * patience
        self._waiting[replica] = WaitingFetch(token, request.offset, deadline_ms)
        self.advance()

    def _needs_snapshot(self, end: LogEnd) -> bool:
        """Whether a log with this end ends before ours begins, or in an earlier epoch than ours begins in.

        Where such an epoch ended, our entries do not say; the snapshot does, if that is its own end.
        """
        log = self._node.log
        start_offset = log.log_start_offset
        if end.end_offset < start_offset:
            return True
        is_earlier = start_offset > 0 and end.last_epoch < log.epochs.epoch_at(start_offset)
        return is_earlier and end != self._node.snapshot

    def _progressed(self, replica: Voter, offset: int, now_ms: int) -> None:
        progress = self._replicas.get(replica)
        if progress is not None:
            progress.end_offset, progress.fetched_at_ms = offset, now_ms
            return
        self._replicas[replica] = Progress(offset, now_ms)
        if len(self._replicas) > REPLICAS_MAX:
            del self._replicas[min(self._replicas, key=lambda known: self._replicas[known].fetched_at_ms)]

    def advance(self) -> None:
        """After a fetch or a flush: commit what may be committed, and answer who waits for it."""
        node = self._node
        end_offset = self._committed_end()
        if end_offset > node.high_watermark:
            node.high_watermark = end_offset
            node.effects.append(Committed(end_offset))
        for replica, fetch in list(self._waiting.items()):
            progress = self._replicas.get(replica)
            told = progress.high_watermark_told if progress else -1
            if node.log.flushed_end_offset > fetch.offset or told < node.high_watermark:
                self._answer(replica)
        self._change_voters()

    def _answer(self, replica: Voter) -> None:
        node = self._node
        fetch = self._waiting.pop(replica)
        if replica in self._replicas:
            self._replicas[replica].high_watermark_told = node.high_watermark
        response = FetchResponse(node.state.epoch, node.me.node_id, node.high_watermark, fetch.offset)
        self._answer_now(fetch.token, response)

    def _answer_now(self, token: int, response: FetchResponse) -> None:
        self._node.effects.append(Answer(token, response))

    def refuse_all(self) -> None:
        """This is the end of the leadership."""
        for fetch in self._waiting.values():
            self._answer_now(fetch.token, FetchResponse(self._node.state.epoch, None, is_refused=True))
        self._waiting.clear()

    # What is committed

    def _committed_end(self) -> int:
        """The offset that enough voters hold, or 0 while no entry of our own epoch is among it.

        An entry of an earlier epoch may be replaced even if a majority holds it (Raft, section 5.4.2).
        """
        voters = self._node.voters
        ends = sorted(map(self._end_offset, voters.seats), reverse=True)
        end_offset = ends[voters.majority - 1] if self._node.membership.is_bootstrapped else ends[-1]
        return end_offset if end_offset > self._epoch_start_offset else 0

    def _end_offset(self, node_id: int) -> int:
        if node_id == self._node.me.node_id:
            return self._node.log.flushed_end_offset
        return max((progress.end_offset for progress in self._of_voter(node_id)), default=0)

    def _fetched_at_ms(self, node_id: int) -> int:
        return max(
            (progress.fetched_at_ms for progress in self._of_voter(node_id)), default=self._began_at_ms
        )

    def _of_voter(self, node_id: int) -> list[Progress]:
        return [
            progress
            for replica, progress in self._replicas.items()
            if replica.node_id == node_id and replica in self._node.voters
        ]

    def successors(self) -> dict[int, UUID | None]:
        """The other voters, those first that hold most."""
        ordered = sorted(self._node.others, key=lambda node_id: (-self._end_offset(node_id), node_id))
        return {node_id: self._node.voters.seats[node_id] for node_id in ordered}

    # Who votes

    def _change_voters(self) -> None:
        """Seat the first voters, later those that come back with another disk. One change at a time."""
        membership = self._node.membership
        if membership.changed_at is None:
            if not self._silent():
                self._append(VotersChange(self._first_voters()))
        elif self._node.high_watermark <= max(membership.changed_at, self._epoch_start_offset):
            return  # the change before is not committed, or nothing of our own epoch is
        elif not membership.is_bootstrapped:
            self._append(Bootstrapped())
        else:
            self._maybe_readmit()

    def _first_voters(self) -> VoterSet:
        voters = self._node.voters.seated(self._node.me)
        latest = sorted(self._replicas, key=lambda replica: self._replicas[replica].fetched_at_ms)
        for replica in latest:
            if replica.node_id in voters.seats and replica.node_id != self._node.me.node_id:
                voters = voters.seated(replica)
        return voters

    def _maybe_readmit(self) -> None:
        """A configured node that fetches with a new disk gets its seat again when it has caught up.

        Unless somebody still fetches with the old one: two processes with one id would take the seat from
        each other without end.

        The old voter leaves by one change and the new one comes by the next: only of two sets that differ by
        one voter any two majorities overlap.
        """
        voters = self._node.voters
        for replica, progress in self._replicas.items():
            if replica.node_id not in self._node.membership.configured.seats or replica in voters:
                continue
            if progress.end_offset < self._node.high_watermark or self._is_seat_used(replica, progress):
                continue
            if replica.node_id in voters.seats:
                self._append(VotersChange(voters.without(replica.node_id)))
            else:
                self._append(VotersChange(voters.seated(replica)))
            return

    def _is_seat_used(self, replica: Voter, progress: Progress) -> bool:
        """Whether another process with the id of this replica votes, and is at work."""
        if replica.node_id not in self._node.voters.seats:
            return False
        silent_ms = progress.fetched_at_ms - self._fetched_at_ms(replica.node_id)
        return replica.node_id == self._node.me.node_id or silent_ms < self._node.limits.resign_ms

    def _append(self, entry: VotersChange | Bootstrapped) -> None:
        self._node.effects.append(Append(entry))
