"""What goes into the quorum's core and what comes out of it.

Messages travel between nodes, each as one Kafka API: Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch of the
metadata log. Effects are what the driver has to do, one after the other and to its end, before it tells the
core of anything else. What follows a `Persist` may be carried out only when that is on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from penstock.quorum.voters import Voter, VoterSet
    from penstock.replication.divergence import LogEnd


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What a node must not forget: the highest epoch it knows of, and its vote in it."""

    epoch: int = 0
    voted_for: Voter | None = None
    leader_id: int | None = None


# Messages


@dataclass(frozen=True, slots=True)
class VoteRequest:
    epoch: int
    candidate: Voter
    log_end: LogEnd
    is_pre_vote: bool
    voter_storage_id: UUID | None
    """Of the receiver, as the candidate's voter set has it: another disk must not answer for it."""


@dataclass(frozen=True, slots=True)
class VoteResponse:
    epoch: int
    voter_id: int
    leader_id: int | None
    is_granted: bool
    is_pre_vote: bool


@dataclass(frozen=True, slots=True)
class BeginQuorumEpoch:
    epoch: int
    leader_id: int
    voter_storage_id: UUID | None
    """Of the receiver, as the leader's voter set has it."""


@dataclass(frozen=True, slots=True)
class EndQuorumEpoch:
    """The leader of the epoch gives up; the first of `successors` may try at once, the others after it."""

    epoch: int
    leader_id: int
    successors: Mapping[int, UUID | None]
    """In this order, with their storage ids as the leader's voter set has them."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Give me what comes after my log; all before `offset` is on my disk."""

    epoch: int
    replica: Voter
    offset: int
    last_epoch: int


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """At most one of `diverging`, `snapshot` and data; none of them with `is_refused`."""

    epoch: int
    leader_id: int | None
    high_watermark: int = 0
    start_offset: int = 0
    diverging: LogEnd | None = None
    snapshot: LogEnd | None = None
    is_refused: bool = False


Message = VoteRequest | VoteResponse | BeginQuorumEpoch | EndQuorumEpoch | FetchRequest | FetchResponse


# Records that the quorum writes itself


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The first entry of each epoch: entries of earlier ones are committed together with it."""

    leader_id: int


@dataclass(frozen=True, slots=True)
class VotersChange:
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """Every first voter has the voter set on its disk: from here on a majority decides."""


ControlEntry = LeaderChange | VotersChange | Bootstrapped


# Effects


@dataclass(frozen=True, slots=True)
class Persist:
    state: ElectionState


@dataclass(frozen=True, slots=True)
class Send:
    to: int
    message: Message


@dataclass(frozen=True, slots=True)
class Answer:
    """To the request that came with this token, now or when it has waited long enough.

    To a fetch that is neither refused nor diverging the driver adds what the log has from `start_offset` on.
    """

    token: int
    response: VoteResponse | FetchResponse


@dataclass(frozen=True, slots=True)
class Append:
    """By the leader, under its epoch."""

    entry: ControlEntry


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """What the response of this moment carries, if anything; when it is on disk, `flushed` is called."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Forget all from this offset on; when that is done, `flushed` is called."""

    offset: int


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """Replace the log by the leader's snapshot; when it is there, `restored` and `flushed` are called."""

    leader_id: int
    snapshot: LogEnd


@dataclass(frozen=True, slots=True)
class StandStill:
    """Whoever leads lacks what is committed here: its log agrees with ours up to `offset` at most.

    Nothing is truncated or replaced; the leader is asked again after a while.
    """

    leader_id: int
    offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderIs:
    """Told at every change: who leads this epoch as far as this node knows, None while nobody does."""

    epoch: int
    leader_id: int | None


@dataclass(frozen=True, slots=True)
class Committed:
    high_watermark: int


Effect = (
    Persist
    | Send
    | Answer
    | Append
    | AppendFetched
    | Truncate
    | LoadSnapshot
    | StandStill
    | LeaderIs
    | Committed
)
