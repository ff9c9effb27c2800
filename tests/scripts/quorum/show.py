"""Messages and states of the quorum in one line each. `5@2` is a log that ends at 5, in epoch 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.quorum.messages import (
    BeginQuorumEpoch,
    Bootstrapped,
    ControlEntry,
    ElectionState,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    LeaderChange,
    VoteRequest,
    VoteResponse,
    VotersChange,
)
from tests.scripts.log import show_entries

if TYPE_CHECKING:
    from tests.scripts.quorum.node import Envelope


@dataclass(frozen=True)
class Control:
    """An entry that the quorum writes itself, as a word."""

    entry: ControlEntry

    def __str__(self) -> str:
        match self.entry:
            case LeaderChange(leader_id):
                return f"leader={leader_id}"
            case VotersChange(voters):
                return f"voters={','.join(map(str, voters.seats))}"
            case Bootstrapped():
                return "bootstrapped"


def show_state(state: ElectionState) -> str:
    voted_for = "-" if state.voted_for is None else state.voted_for.node_id
    return f"epoch={state.epoch} voted_for={voted_for} leader={show_id(state.leader_id)}"


def show_id(node_id: int | None) -> str:
    return "-" if node_id is None else str(node_id)


def show(envelope: Envelope) -> str:
    return f"{envelope.source}->{envelope.to} {_show_message(envelope)}"


def _show_message(envelope: Envelope) -> str:
    match envelope.message:
        case VoteRequest(epoch, _, log_end, is_pre_vote):
            kind = "PreVote" if is_pre_vote else "Vote"
            return f"{kind} epoch={epoch} log={log_end.end_offset}@{log_end.last_epoch}"
        case VoteResponse(epoch, _, leader_id, is_granted, is_pre_vote):
            kind = "PreVote" if is_pre_vote else "Vote"
            outcome = "granted" if is_granted else f"refused leader={show_id(leader_id)}"
            return f"{kind}Response epoch={epoch} {outcome}"
        case BeginQuorumEpoch(epoch, leader_id, _):
            return f"BeginQuorumEpoch epoch={epoch} leader={leader_id}"
        case EndQuorumEpoch(epoch, _, successors):
            return f"EndQuorumEpoch epoch={epoch} successors={','.join(map(str, successors))}"
        case FetchRequest(epoch, _, offset, last_epoch):
            return f"Fetch epoch={epoch} log={offset}@{last_epoch}"
        case FetchResponse() as response:
            return f"FetchResponse epoch={response.epoch} {_show_fetched(envelope, response)}"


def _show_fetched(envelope: Envelope, response: FetchResponse) -> str:
    if response.is_refused:
        return f"refused leader={show_id(response.leader_id)}"
    if response.snapshot is not None:
        return f"snapshot={response.snapshot.end_offset}@{response.snapshot.last_epoch}"
    if response.diverging is not None:
        return f"diverging={response.diverging.end_offset}@{response.diverging.last_epoch}"
    entries = f" {show_entries(envelope.entries)}" if envelope.entries else ""
    return f"high_watermark={response.high_watermark}{entries}"
