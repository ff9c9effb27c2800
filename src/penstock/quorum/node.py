"""What a node of the quorum knows whatever its role is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.quorum.messages import Bootstrapped, VotersChange
from penstock.replication.divergence import LogEnd

if TYPE_CHECKING:
    from penstock.quorum.limits import QuorumLimits
    from penstock.quorum.messages import ControlEntry, Effect, ElectionState
    from penstock.quorum.voters import Voter, VoterSet
    from penstock.replication.divergence import LogView


class Membership:
    """The voter sets that the log holds, committed or not: as in Raft, the latest is in force."""

    def __init__(self, configured: VoterSet) -> None:
        self.configured = configured
        self.bootstrapped_at: int | None = None
        self._changes: list[tuple[int, VoterSet]] = []

    @property
    def voters(self) -> VoterSet:
        return self._changes[-1][1] if self._changes else self.configured

    @property
    def changed_at(self) -> int | None:
        return self._changes[-1][0] if self._changes else None

    @property
    def is_bootstrapped(self) -> bool:
        return self.bootstrapped_at is not None

    def voters_at(self, end_offset: int) -> VoterSet | None:
        """Those of a log that ends there; None if it has not all that is known of them."""
        if self.bootstrapped_at is None or self.changed_at is None:
            return None
        return self.voters if max(self.bootstrapped_at, self.changed_at) < end_offset else None

    def appended(self, offset: int, entry: ControlEntry) -> None:
        if isinstance(entry, VotersChange):
            self._changes.append((offset, entry.voters))
        elif isinstance(entry, Bootstrapped):
            self.bootstrapped_at = offset

    def restored(self, snapshot: LogEnd, voters: VoterSet) -> None:
        """A snapshot stands for the log up to its end. Only a bootstrapped cluster takes one."""
        self.bootstrapped_at = snapshot.end_offset - 1
        self._changes = [(snapshot.end_offset - 1, voters)]

    def truncated(self, offset: int) -> None:
        self._changes = [change for change in self._changes if change[0] < offset]
        if self.bootstrapped_at is not None and self.bootstrapped_at >= offset:
            self.bootstrapped_at = None


@dataclass(slots=True)
class Node:
    me: Voter
    log: LogView
    limits: QuorumLimits
    membership: Membership
    state: ElectionState
    high_watermark: int = 0
    noted_high_watermark: int = 0
    """As of the last time this node ran: what is committed stays so, before a leader has said it again."""
    snapshot: LogEnd | None = None
    effects: list[Effect] = field(default_factory=list)

    @property
    def voters(self) -> VoterSet:
        return self.membership.voters

    @property
    def others(self) -> list[int]:
        return [node_id for node_id in self.voters.seats if node_id != self.me.node_id]

    @property
    def last_epoch(self) -> int:
        """Of the last entry, which a snapshot may stand for."""
        return max(self.log.epochs.latest, self.snapshot.last_epoch if self.snapshot else -1)

    @property
    def log_end(self) -> LogEnd:
        return LogEnd(self.last_epoch, self.log.log_end_offset)
