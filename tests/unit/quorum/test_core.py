"""The rules of the quorum, one at a time; the section numbers are those of the Raft paper."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.quorum.core import Quorum
from penstock.quorum.limits import QuorumLimits
from penstock.quorum.messages import (
    Answer,
    Append,
    BeginQuorumEpoch,
    Bootstrapped,
    Committed,
    ControlEntry,
    Effect,
    ElectionState,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    LeaderChange,
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

A, B, C = (Voter(node_id, UUID(int=node_id)) for node_id in (1, 2, 3))
LIMITS = QuorumLimits(election_ms_min=500, election_ms_max=1000, resign_ms=1500)
C_WIPED = Voter(3, UUID(int=33))
VOTERS = VoterSet({voter.node_id: voter.storage_id for voter in (A, B, C)})
FOUNDED: list[ControlEntry] = [LeaderChange(1), VotersChange(VOTERS), Bootstrapped()]


class Log:
    def __init__(self, epochs: list[int]) -> None:
        """One entry per epoch named."""
        self.log_start_offset = 0
        self.epochs = LeaderEpochs()
        self.log_end_offset = self.flushed_end_offset = 0
        for epoch in epochs:
            self.append(epoch)

    def append(self, epoch: int) -> int:
        self.epochs.assign(epoch, self.log_end_offset)
        self.log_end_offset += 1
        self.flushed_end_offset += 1
        return self.log_end_offset - 1


def node(me: Voter = A, epochs: tuple[int, ...] = (1, 1, 1), state: ElectionState | None = None) -> Quorum:
    """A node of a founded cluster: the first three entries say who votes."""
    log = Log(list(epochs))
    quorum = Quorum(
        me,
        VoterSet.of_ids([1, 2, 3]),
        state or ElectionState(max(epochs, default=0)),
        log,
        LIMITS,
        jitter=lambda low, _: low,
    )
    for offset, entry in enumerate(FOUNDED[: len(epochs)]):
        quorum.appended(offset, entry)
    quorum.start(0)
    return quorum


def log_of(quorum: Quorum) -> Log:
    log = quorum._node.log
    assert isinstance(log, Log)
    return log


def lead(quorum: Quorum, now_ms: int = 500) -> None:
    """Through pre-vote and vote, and its first entry on disk."""
    quorum.tick(now_ms)
    for is_pre_vote in (True, False):
        for voter_id in (2, 3):
            quorum.vote_response(VoteResponse(quorum.epoch, voter_id, None, True, is_pre_vote), now_ms)
    assert quorum.is_leader
    log_of(quorum).append(quorum.epoch)
    quorum.flushed(now_ms)


def of_type(effects: list[Effect], kind: type[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def carried_out(quorum: Quorum, effects: list[Effect], now_ms: int) -> list[ControlEntry]:
    """What the leader appends to the log, by these effects and by what follows from them."""
    entries = []
    while appends := of_type(effects, Append):
        (append,) = appends
        assert isinstance(append, Append)
        entries.append(append.entry)
        quorum.appended(log_of(quorum).append(quorum.epoch), append.entry)
        effects = quorum.flushed(now_ms)
    return entries


def vote(epoch: int, candidate: Voter, log_end: LogEnd, *, to: Voter = A, pre: bool = False) -> VoteRequest:
    return VoteRequest(epoch, candidate, log_end, pre, to.storage_id)


def granted(effects: list[Effect]) -> bool:
    (answer,) = of_type(effects, Answer)
    assert isinstance(answer, Answer)
    assert isinstance(answer.response, VoteResponse)
    return answer.response.is_granted


# Votes


def test_a_vote_is_on_disk_before_it_is_answered() -> None:
    effects = node().vote_request(7, vote(2, B, LogEnd(1, 3)), 0)
    assert effects[-2:] == [
        Persist(ElectionState(2, B)),
        Answer(7, VoteResponse(2, 1, None, True, False)),
    ]


def test_one_vote_per_epoch_also_after_a_restart() -> None:
    voted = ElectionState(2, B)
    assert not granted(node(state=voted).vote_request(1, vote(2, C, LogEnd(1, 3)), 0))
    assert granted(node(state=voted).vote_request(1, vote(2, B, LogEnd(1, 3)), 0))


def test_no_vote_for_a_log_that_holds_less() -> None:
    """5.4.1: first the last epoch decides, then the length."""
    assert not granted(node(epochs=(1, 1, 1, 2)).vote_request(1, vote(3, B, LogEnd(1, 9)), 0))
    assert not granted(node(epochs=(1, 1, 1, 2)).vote_request(1, vote(3, B, LogEnd(2, 3)), 0))
    assert granted(node(epochs=(1, 1, 1, 2)).vote_request(1, vote(3, B, LogEnd(2, 4)), 0))


def test_no_vote_in_the_place_of_somebody_else() -> None:
    """The candidate means the disk that this node had before."""
    request = VoteRequest(2, B, LogEnd(1, 3), False, UUID(int=99))
    assert not granted(node().vote_request(1, request, 0))


def test_no_vote_for_a_node_that_lost_its_disk() -> None:
    assert not granted(node().vote_request(1, vote(2, C_WIPED, LogEnd(1, 3)), 0))


def test_who_hears_the_leader_does_not_encourage_others() -> None:
    quorum = node()
    quorum.begin_epoch(BeginQuorumEpoch(2, 2, A.storage_id), 10)
    quorum.fetch_response(FetchResponse(2, 2, 0, 3), 20)
    assert not granted(quorum.vote_request(1, vote(2, C, LogEnd(9, 9), pre=True), 30))
    assert granted(quorum.vote_request(2, vote(2, C, LogEnd(9, 9), pre=True), 30 + 500))


def test_a_pre_vote_changes_nothing() -> None:
    effects = node().vote_request(1, vote(1, B, LogEnd(1, 3), pre=True), 0)
    assert granted(effects)
    assert not of_type(effects, Persist)


def test_an_election_needs_a_pre_vote_then_a_majority() -> None:
    quorum = node()
    asked = quorum.tick(500)
    assert all(isinstance(effect, Send) for effect in asked)
    assert quorum.epoch == 1
    effects = quorum.vote_response(VoteResponse(1, 3, None, True, True), 510)
    assert effects[0] == Persist(ElectionState(2, A))
    assert quorum.vote_response(VoteResponse(2, 2, None, False, False), 520) == []
    effects = quorum.vote_response(VoteResponse(2, 3, None, True, False), 520)
    assert effects[:3] == [
        Persist(ElectionState(2, A, 1)),
        LeaderIs(2, 1),
        Append(LeaderChange(1)),
    ]


def test_a_leader_that_restarts_does_not_lead_that_epoch_again() -> None:
    quorum = node(state=ElectionState(2, A, 1))
    assert not quorum.is_leader
    assert quorum.leader_id is None
    assert quorum.vote_response(VoteResponse(2, 2, None, True, False), 0) == []
    assert not quorum.is_leader


# What is committed


def test_entries_of_earlier_epochs_are_not_committed_by_counting() -> None:
    """5.4.2, figure 8: a majority holds the entry of epoch 2, and yet it may be lost."""
    quorum = node(epochs=(1, 1, 1, 2), state=ElectionState(3))
    lead(quorum)  # its own entry lies at offset 4
    effects = quorum.fetch_request(1, FetchRequest(quorum.epoch, B, 4, 2), 510)
    assert of_type(effects, Committed) == []
    effects = quorum.fetch_request(2, FetchRequest(quorum.epoch, B, 5, quorum.epoch), 520)
    assert of_type(effects, Committed) == [Committed(5)]


def test_only_voters_count() -> None:
    quorum = node()
    lead(quorum)
    for replica in (C_WIPED, Voter(9, UUID(int=9))):
        effects = quorum.fetch_request(1, FetchRequest(2, replica, 4, 2), 510)
        assert of_type(effects, Committed) == []


def test_a_follower_of_another_opinion_is_told_where_they_agreed() -> None:
    quorum = node(epochs=(1, 1, 1, 2, 2))
    lead(quorum)
    effects = quorum.fetch_request(1, FetchRequest(quorum.epoch, B, 6, 1), 510)
    assert effects == [Answer(1, FetchResponse(quorum.epoch, 1, diverging=LogEnd(1, 3)))]


def test_a_follower_truncates_by_epoch() -> None:
    quorum = node(B, epochs=(1, 1, 1, 2, 2, 2))
    quorum.begin_epoch(BeginQuorumEpoch(4, 1, B.storage_id), 0)
    effects = quorum.fetch_response(FetchResponse(4, 1, diverging=LogEnd(2, 5)), 10)
    assert effects == [Truncate(5)]
    quorum = node(B, epochs=(1, 1, 1, 2, 2, 2))
    quorum.begin_epoch(BeginQuorumEpoch(4, 1, B.storage_id), 0)
    effects = quorum.fetch_response(FetchResponse(4, 1, diverging=LogEnd(1, 9)), 10)
    assert effects == [Truncate(3)]


def test_a_follower_commits_what_it_holds_of_what_the_leader_committed() -> None:
    quorum = node(B)
    quorum.begin_epoch(BeginQuorumEpoch(2, 1, B.storage_id), 0)
    quorum.fetch_response(FetchResponse(2, 1, high_watermark=9, start_offset=3), 10)
    log_of(quorum).append(2)
    assert of_type(quorum.flushed(10), Committed) == [Committed(4)]


# Who leads


def test_a_leader_without_a_majority_resigns_and_refuses_who_waits() -> None:
    quorum = node()
    lead(quorum)
    for token in (1, 2):  # the first is answered at once, with the high watermark
        quorum.fetch_request(token, FetchRequest(2, Voter(9, UUID(int=9)), 4, 2), 1900)
    effects = quorum.tick(500 + LIMITS.resign_ms)
    assert Answer(2, FetchResponse(2, None, is_refused=True)) in effects
    assert not quorum.is_leader


def test_a_higher_epoch_ends_a_leadership() -> None:
    quorum = node()
    lead(quorum)
    quorum.vote_request(1, vote(7, B, LogEnd(0, 0)), 600)
    assert not quorum.is_leader
    assert quorum.epoch == 7


# Strangers


STRANGERS = [
    vote(7, Voter(999, UUID(int=999)), LogEnd(2**31 - 1, 2**60)),
    VoteRequest(7, Voter(999, UUID(int=999)), LogEnd(2**31 - 1, 2**60), False, None),
    VoteRequest(7, B, LogEnd(2**31 - 1, 2**60), False, None),
    VoteRequest(7, B, LogEnd(2**31 - 1, 2**60), False, UUID(int=99)),
    vote(7, C_WIPED, LogEnd(2**31 - 1, 2**60)),
    vote(2**31 - 1, B, LogEnd(2**31 - 1, 2**60)),
    BeginQuorumEpoch(7, 999, A.storage_id),
    BeginQuorumEpoch(7, 2, None),
    BeginQuorumEpoch(7, 2, UUID(int=99)),
    BeginQuorumEpoch(2**31 - 1, 2, A.storage_id),
    EndQuorumEpoch(7, 2, {}),
    EndQuorumEpoch(7, 2, {1: None}),
    EndQuorumEpoch(2**31 - 1, 2, {1: A.storage_id}),
    EndQuorumEpoch(2, 2, {1: UUID(int=99)}),
    FetchRequest(7, C_WIPED, 3, 1),
    FetchRequest(7, Voter(999, UUID(int=999)), 3, 1),
    FetchRequest(2**31 - 1, B, 3, 1),
]


@pytest.mark.parametrize("message", STRANGERS, ids=repr)
@pytest.mark.parametrize("role", ["leader", "follower", "unattached"])
def test_a_stranger_changes_nothing(message: Message, role: str) -> None:
    """Who is no voter, does not know what every voter knows, or comes from an epoch that cannot be."""
    quorum = node()
    if role == "leader":
        lead(quorum)
    elif role == "follower":
        quorum.begin_epoch(BeginQuorumEpoch(2, 2, A.storage_id), 500)
    before = (quorum.state, quorum.role, quorum.leader_id)
    match message:
        case VoteRequest():
            effects = quorum.vote_request(1, message, 500)
            assert not granted(effects)
        case FetchRequest():
            effects = quorum.fetch_request(1, message, 500)
        case BeginQuorumEpoch():
            effects = quorum.begin_epoch(message, 500)
        case EndQuorumEpoch():
            effects = quorum.end_epoch(message, 500)
        case _:
            raise AssertionError(message)
    assert not of_type(effects, Persist)
    assert (quorum.state, quorum.role, quorum.leader_id) == before


def test_a_voter_that_was_away_through_many_elections_hears_of_them() -> None:
    quorum = node()
    assert granted(quorum.vote_request(1, vote(100_000, B, LogEnd(99_999, 3)), 0))
    assert quorum.epoch == 100_000


def test_a_voter_that_was_admitted_by_an_entry_that_we_lack_may_be_elected() -> None:
    """It knows us by our disk; our log says only that the disk it had before is out."""
    quorum = node(epochs=(1, 1, 1, 1))
    quorum.appended(3, VotersChange(VOTERS.without(3)))
    assert granted(quorum.vote_request(1, vote(2, C_WIPED, LogEnd(1, 5)), 0))


# What is committed stays


def follower_with_a_note(leader_says: FetchResponse) -> list[Effect]:
    """Of a node that held six entries and knew five to be committed when it ran the last time."""
    quorum = node(B, epochs=(1, 1, 1, 2, 2, 2))
    quorum.noted(5)
    quorum.begin_epoch(BeginQuorumEpoch(4, 1, B.storage_id), 0)
    return quorum.fetch_response(leader_says, 10)


def test_what_was_known_to_be_committed_is_not_truncated_whoever_leads() -> None:
    effects = follower_with_a_note(FetchResponse(4, 1, diverging=LogEnd(2, 4)))
    assert effects == [StandStill(1, 4, 5)]
    effects = follower_with_a_note(FetchResponse(4, 1, diverging=LogEnd(2, 5)))
    assert effects == [Truncate(5)]


def test_a_snapshot_without_what_was_known_to_be_committed_is_not_taken() -> None:
    effects = follower_with_a_note(FetchResponse(4, 1, snapshot=LogEnd(3, 4)))
    assert effects == [StandStill(1, 4, 5)]
    effects = follower_with_a_note(FetchResponse(4, 1, snapshot=LogEnd(3, 5)))
    assert effects == [LoadSnapshot(1, LogEnd(3, 5))]


def test_who_stands_still_asks_again() -> None:
    quorum = node(B, epochs=(1, 1, 1, 2, 2, 2))
    quorum.noted(5)
    quorum.begin_epoch(BeginQuorumEpoch(4, 1, B.storage_id), 0)
    quorum.fetch_response(FetchResponse(4, 1, diverging=LogEnd(0, 0)), 10)
    assert quorum.next_deadline_ms == 10 + LIMITS.election_ms_min


# Snapshots


def leader_that_began_with_a_snapshot(epoch: int, *entries: int) -> Quorum:
    """Its log begins at 100 with the entries of these epochs; before them it has a snapshot of this epoch."""
    log = Log([])
    log.log_start_offset = log.log_end_offset = log.flushed_end_offset = 100
    for each in entries:
        log.append(each)
    state = ElectionState(max(entries))
    quorum = Quorum(A, VoterSet.of_ids([1, 2, 3]), state, log, LIMITS, jitter=lambda low, _: low)
    quorum.restored(LogEnd(epoch, 100), VOTERS)
    quorum.start(0)
    lead(quorum)
    return quorum


def answer_to(quorum: Quorum, offset: int, last_epoch: int) -> FetchResponse | None:
    answers = of_type(quorum.fetch_request(1, FetchRequest(quorum.epoch, B, offset, last_epoch), 510), Answer)
    answer = answers[0] if answers else None
    assert answer is None or (isinstance(answer, Answer) and isinstance(answer.response, FetchResponse))
    return answer.response if isinstance(answer, Answer) else None  # type: ignore[return-value]


@pytest.mark.parametrize(("offset", "last_epoch"), [(99, 4), (120, 3), (100, 3), (100, 2)])
def test_who_ends_before_the_log_or_before_its_first_epoch_gets_the_snapshot(
    offset: int, last_epoch: int
) -> None:
    """The last two ended where our log begins, and not as it began."""
    response = answer_to(leader_that_began_with_a_snapshot(4, 5, 5), offset, last_epoch)
    assert response is not None
    assert response.snapshot == LogEnd(4, 100)


@pytest.mark.parametrize(("offset", "last_epoch"), [(100, 4), (101, 5), (102, 5)])
def test_who_has_the_snapshot_goes_on_with_the_log(offset: int, last_epoch: int) -> None:
    """Also if the first entry after it is of another epoch than its last."""
    response = answer_to(leader_that_began_with_a_snapshot(4, 5, 5), offset, last_epoch)
    assert response is not None
    assert (response.snapshot, response.diverging, response.start_offset) == (None, None, offset)


# The first voters


def founder() -> Quorum:
    quorum = node(epochs=(), state=ElectionState())
    lead(quorum)
    return quorum


def test_the_first_leader_waits_for_every_seat_before_it_writes_who_votes() -> None:
    quorum = founder()
    assert of_type(quorum.fetch_request(1, FetchRequest(1, B, 0, -1), 510), Append) == []
    effects = quorum.fetch_request(2, FetchRequest(1, C, 0, -1), 520)
    assert of_type(effects, Append) == [Append(VotersChange(VOTERS))]
    assert not quorum.takes_entries


def test_the_first_voter_set_needs_everybody() -> None:
    quorum = founder()
    for replica in (B, C):
        quorum.fetch_request(1, FetchRequest(1, replica, 1, 1), 510)
    quorum.appended(log_of(quorum).append(1), VotersChange(VOTERS))
    quorum.flushed(520)
    assert of_type(quorum.fetch_request(2, FetchRequest(1, B, 2, 1), 530), Append) == []
    effects = quorum.fetch_request(3, FetchRequest(1, C, 2, 1), 540)
    assert of_type(effects, Append) == [Append(Bootstrapped())]


def test_a_node_alone_founds_its_cluster_at_once() -> None:
    log = Log([])
    quorum = Quorum(A, VoterSet.of_ids([1]), ElectionState(), log, LIMITS, jitter=lambda low, _: low)
    entries = carried_out(quorum, quorum.start(0), 0)
    assert entries == [LeaderChange(1), VotersChange(VoterSet({1: A.storage_id})), Bootstrapped()]
    assert quorum.takes_entries
    assert quorum.high_watermark == 3


def test_a_wiped_voter_leaves_and_comes_back_in_two_changes() -> None:
    quorum = node()
    lead(quorum)
    quorum.fetch_request(1, FetchRequest(2, B, 4, 2), 510)
    assert of_type(quorum.fetch_request(2, FetchRequest(2, C_WIPED, 4, 2), 520), Append) == []
    now_ms = 520 + LIMITS.resign_ms  # nobody has fetched with the old disk for long
    effects = quorum.fetch_request(3, FetchRequest(2, C_WIPED, 4, 2), now_ms)
    without = VotersChange(VOTERS.without(3))
    assert of_type(effects, Append) == [Append(without)]
    quorum.appended(log_of(quorum).append(2), without)
    quorum.flushed(now_ms)
    assert of_type(quorum.fetch_request(4, FetchRequest(2, C_WIPED, 5, 2), now_ms), Append) == []
    effects = quorum.fetch_request(5, FetchRequest(2, B, 5, 2), now_ms)
    assert of_type(effects, Append) == [Append(VotersChange(VOTERS.seated(C_WIPED)))]


def test_two_processes_with_one_id_do_not_take_the_seat_from_each_other() -> None:
    quorum = node()
    lead(quorum)
    entries = []
    for now_ms in range(510, 10_000, 100):
        for replica in (B, C, C_WIPED, Voter(1, UUID(int=11))):
            request = FetchRequest(2, replica, log_of(quorum).log_end_offset, 2)
            entries += carried_out(quorum, quorum.fetch_request(now_ms, request, now_ms), now_ms)
    assert entries == []
    assert quorum.voters == VOTERS
