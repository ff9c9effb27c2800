"""Both sides of a fetch session, without a network between them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.replication import fetch_session
from penstock.replication.divergence import LogEnd
from penstock.replication.fetch_session import (
    BEGIN,
    EPOCH_MAX,
    NO_SESSION,
    NOT_HERE,
    WITHOUT_SESSION,
    FollowerSession,
    Key,
    LeaderSession,
    SessionRequest,
    epoch_after,
)
from penstock.replication.replica_fetch import ReplicaAnswer, ReplicaFetch
from penstock.types import ErrorCode

TOPIC, OTHER = UUID(int=1), UUID(int=2)
A, B, C = (TOPIC, 0), (TOPIC, 1), (OTHER, 0)
OK = ErrorCode.none
AT = ReplicaFetch(3, 10, 2, 0)
SESSION = 7


def fetch(offset: int, epoch: int = 3) -> ReplicaFetch:
    return ReplicaFetch(epoch, offset, 2, 0)


def begun(*keys: Key) -> FollowerSession:
    """With these partitions, all at the same offset, in a session."""
    session = FollowerSession()
    for key in keys:
        session.want(key, AT)
    session.request()
    assert session.answered(OK, SESSION)
    return session


# The follower's side


def test_the_first_request_names_everything_and_the_next_ones_nothing() -> None:
    session = FollowerSession()
    session.want(A, AT)
    session.want(B, fetch(4))
    assert session.request() == (NO_SESSION, BEGIN, {A: AT, B: fetch(4)}, ())
    assert session.answered(OK, SESSION)
    assert session.request() == (SESSION, 1, {}, ())
    assert session.answered(OK, SESSION)
    assert session.request() == (SESSION, 2, {}, ())


def test_only_what_changed_is_sent() -> None:
    session = begun(A, B, C)
    session.want(A, AT)
    session.want(B, fetch(11))
    assert session.request() == (SESSION, 1, {B: fetch(11)}, ())


def test_what_changed_and_changed_back_is_not_sent() -> None:
    session = begun(A)
    session.want(A, fetch(11))
    session.want(A, AT)
    assert session.request().fetches == {}


def test_what_is_wanted_no_more_is_forgotten_once() -> None:
    session = begun(A, B)
    session.want(B, fetch(12))
    session.forget(B)
    session.forget(C)
    assert session.request() == (SESSION, 1, {}, (B,))
    session.answered(OK, SESSION)
    assert session.request().forgotten == ()


def test_what_is_wanted_again_before_the_leader_heard_otherwise_stays() -> None:
    session = begun(A)
    session.forget(A)
    session.want(A, AT)
    assert session.request() == (SESSION, 1, {}, ())


def test_whether_anything_is_wanted() -> None:
    session = FollowerSession()
    assert session.is_empty
    session.want(A, AT)
    assert not session.is_empty
    session.request()
    assert not session.is_empty
    session.forget(A)
    assert session.is_empty
    session.want(B, AT)
    assert not session.is_empty


def test_that_nothing_is_wanted_any_more_must_be_said() -> None:
    session = begun(A)
    session.forget(A)
    assert not session.is_empty
    assert session.request() == (SESSION, 1, {}, (A,))
    session.answered(OK, SESSION)
    assert session.is_empty


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.inconsistent_cluster_id,
    ],
)
def test_after_an_error_everything_is_sent_anew(error: ErrorCode) -> None:
    session = begun(A, B, C)
    session.want(A, fetch(11))
    session.forget(B)
    session.request()
    assert not session.answered(error, NO_SESSION)
    assert session.request() == (NO_SESSION, BEGIN, {A: fetch(11), C: AT}, ())


def test_without_an_answer_everything_is_sent_anew() -> None:
    session = begun(A, B)
    session.want(A, fetch(11))
    session.request()
    session.lost()
    assert session.request() == (NO_SESSION, BEGIN, {A: fetch(11), B: AT}, ())


def test_a_leader_that_grants_no_session_is_sent_everything_each_time() -> None:
    session = FollowerSession()
    session.want(A, AT)
    for _ in range(3):
        assert session.request() == (NO_SESSION, BEGIN, {A: AT}, ())
        assert session.answered(OK, NO_SESSION)


def test_a_leader_may_end_a_session_with_an_answer_that_stands() -> None:
    session = begun(A)
    session.request()
    assert session.answered(OK, NO_SESSION)
    assert session.request() == (NO_SESSION, BEGIN, {A: AT}, ())


@pytest.mark.parametrize("error", NOT_HERE)
def test_what_the_leader_put_out_of_the_session_is_sent_again_although_nothing_changed(
    error: ErrorCode,
) -> None:
    session = begun(A, B)
    session.request()
    session.answered(OK, SESSION)
    session.refused(A, error)
    session.forget(A)
    session.want(A, AT)  # before the leader could be asked for anything else
    assert session.request() == (SESSION, 2, {A: AT}, ())


def test_after_other_errors_a_partition_stays() -> None:
    session = begun(A)
    session.refused(A, ErrorCode.kafka_storage_error)
    session.want(A, AT)
    assert session.request() == (SESSION, 1, {}, ())


def test_epochs_begin_anew_without_the_one_that_begins_a_session() -> None:
    assert [epoch_after(epoch) for epoch in (BEGIN, 1, EPOCH_MAX - 1, EPOCH_MAX)] == [1, 2, EPOCH_MAX, 1]


# The leader's side


def led(*keys: Key) -> LeaderSession:
    session = LeaderSession(SESSION)
    request = SessionRequest(NO_SESSION, BEGIN, dict.fromkeys(keys, AT))
    assert session.maybe_refuse(request) is None
    session.update(request)
    return session


def test_only_the_next_request_of_the_same_session_goes_on_with_it() -> None:
    session = led(A)
    assert session.maybe_refuse(SessionRequest(SESSION, 1, {})) is None
    session.update(SessionRequest(SESSION, 1, {}))
    assert session.maybe_refuse(SessionRequest(SESSION, 2, {})) is None
    for epoch in (1, 3, EPOCH_MAX, -2):
        wrong = SessionRequest(SESSION, epoch, {})
        assert session.maybe_refuse(wrong) is ErrorCode.invalid_fetch_session_epoch
    for session_id in (NO_SESSION, SESSION + 1):
        strange = SessionRequest(session_id, 2, {})
        assert session.maybe_refuse(strange) is ErrorCode.fetch_session_id_not_found


def test_epochs_minus_one_and_zero_are_full_fetches() -> None:
    assert [SessionRequest(0, epoch, {}).is_full for epoch in (WITHOUT_SESSION, BEGIN, 1)] == [
        True,
        True,
        False,
    ]


def test_a_session_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "SESSION_PARTITIONS_MAX", 2)
    session = led(A, B)
    changed = SessionRequest(SESSION, 1, {A: fetch(11), B: fetch(11)})
    assert session.maybe_refuse(changed) is None
    assert session.maybe_refuse(SessionRequest(SESSION, 1, {C: AT})) is ErrorCode.invalid_request
    assert session.maybe_refuse(SessionRequest(SESSION, 1, {C: AT}, (A,))) is None
    full = SessionRequest(NO_SESSION, BEGIN, {A: AT, B: AT, C: AT})
    assert LeaderSession(8).maybe_refuse(full) is ErrorCode.invalid_request


def test_requests_change_what_is_wanted() -> None:
    session = led(A, B)
    session.update(SessionRequest(SESSION, 1, {A: fetch(11), C: AT}, (B, (OTHER, 9))))
    assert session.fetches == {A: fetch(11), C: AT}


def test_what_is_news() -> None:
    session = led(A)
    quiet = ReplicaAnswer(high_watermark=5, log_start_offset=0)
    assert session.is_news(A, 3, quiet), "the first answer always is"
    assert not session.is_news(A, 3, quiet)
    for other in (quiet._replace(high_watermark=6), quiet._replace(high_watermark=6, log_start_offset=1)):
        assert session.is_news(A, 3, other)
        assert not session.is_news(A, 3, other)
    assert session.is_news(A, 4, other), "another leader epoch"
    assert not session.is_news(A, 4, other)
    for _ in range(2):
        assert session.is_news(A, 4, other._replace(has_records=True))
    assert not session.is_news(A, 4, other)


@pytest.mark.parametrize(
    "refusal",
    [
        ReplicaAnswer(ErrorCode.fenced_leader_epoch),
        ReplicaAnswer(ErrorCode.offset_out_of_range, 5, 0),
        ReplicaAnswer(ErrorCode.kafka_storage_error),
        ReplicaAnswer(high_watermark=5, log_start_offset=0, diverging=LogEnd(1, 4)),
    ],
)
def test_after_a_refusal_everything_is_news(refusal: ReplicaAnswer) -> None:
    session = led(A)
    quiet = ReplicaAnswer(high_watermark=5, log_start_offset=0)
    session.is_news(A, 3, quiet)
    assert session.is_news(A, 3, refusal)
    assert session.is_news(A, 3, refusal), "and it is repeated as long as it stands"
    assert session.is_news(A, 3, quiet)


def test_who_goes_back_is_told_everything_again() -> None:
    session = led(A)
    quiet = ReplicaAnswer(high_watermark=5, log_start_offset=0)
    session.is_news(A, 3, quiet)
    session.update(SessionRequest(SESSION, 1, {A: fetch(11)}))
    assert not session.is_news(A, 3, quiet)
    session.update(SessionRequest(SESSION, 2, {A: fetch(9)}))
    assert session.is_news(A, 3, quiet)


def test_what_was_forgotten_is_told_again() -> None:
    session = led(A)
    quiet = ReplicaAnswer(high_watermark=5, log_start_offset=0)
    session.is_news(A, 3, quiet)
    session.update(SessionRequest(SESSION, 1, {}, (A,)))
    session.update(SessionRequest(SESSION, 2, {A: AT}))
    assert session.is_news(A, 3, quiet)


@pytest.mark.parametrize("error", NOT_HERE)
def test_what_is_not_led_here_does_not_stay(error: ErrorCode) -> None:
    session = led(A, B)
    assert session.is_news(A, -1, ReplicaAnswer(error))
    assert session.fetches == {B: AT}
    session.update(SessionRequest(SESSION, 1, {}, (A,)))
    session.update(SessionRequest(SESSION, 2, {A: AT}))
    assert session.fetches == {A: AT, B: AT}


# Both


@dataclass(frozen=True)
class Led:
    """A partition as its leader has it."""

    leader_epoch: int = 1
    high_watermark: int = 0
    log_start_offset: int = 0
    end_offset: int = 0
    is_here: bool = True

    def answer(self, asked: ReplicaFetch) -> ReplicaAnswer:
        if not self.is_here:
            return ReplicaAnswer(ErrorCode.not_leader_or_follower)
        watermarks = (self.high_watermark, self.log_start_offset)
        if asked.leader_epoch != self.leader_epoch:
            return ReplicaAnswer(ErrorCode.fenced_leader_epoch, *watermarks)
        if asked.offset > self.end_offset:
            return ReplicaAnswer(OK, *watermarks, LogEnd(0, self.end_offset))
        return ReplicaAnswer(OK, *watermarks, has_records=asked.offset < self.end_offset)


SMALL = st.integers(0, 3)
LEDS = st.builds(Led, st.integers(1, 2), SMALL, SMALL, SMALL, st.booleans())
FETCHES = st.builds(ReplicaFetch, st.integers(1, 2), SMALL, st.just(0), SMALL)
KEYS = st.sampled_from([A, B, C])
ACTIONS = st.one_of(
    st.tuples(st.just("moves"), KEYS, LEDS),
    st.tuples(st.just("want"), KEYS, FETCHES),
    st.tuples(st.just("forget"), KEYS),
    st.tuples(st.just("exchange")),
    st.tuples(st.just("exchange")),
    st.tuples(st.just("exchange")),
    st.tuples(st.just("answer is lost")),
    st.tuples(st.just("connection breaks")),
)


class Pair:
    """A follower and its leader; what the follower makes of the answers must be what it is told in full."""

    def __init__(self) -> None:
        self.leds = {A: Led(), B: Led(), C: Led()}
        self.wanted: dict[Key, ReplicaFetch] = {}
        self.view: dict[Key, ReplicaAnswer] = {}
        self.follower = FollowerSession()
        self.leader: LeaderSession | None = None
        self.next_id = 1

    def answer(self, request: SessionRequest) -> tuple[ErrorCode, int, dict[Key, ReplicaAnswer]]:
        if request.is_full:
            self.leader = LeaderSession(self.next_id)
            self.next_id += 1
        if self.leader is None:
            return ErrorCode.fetch_session_id_not_found, NO_SESSION, {}
        error = self.leader.maybe_refuse(request)
        if error is not None:
            return error, NO_SESSION, {}
        self.leader.update(request)
        answers = {key: self.leds[key].answer(asked) for key, asked in self.leader.fetches.items()}
        news = {
            key: answer
            for key, answer in answers.items()
            if self.leader.is_news(key, self.leds[key].leader_epoch, answer)
        }
        return OK, self.leader.id, news

    def exchange(self) -> None:
        error, session_id, news = self.answer(self.follower.request())
        if not self.follower.answered(error, session_id):
            assert error in (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch)
            error, session_id, news = self.answer(self.follower.request())
            assert self.follower.answered(error, session_id)
        assert news.keys() <= self.wanted.keys(), "nothing is answered that is not wanted"
        for key, answer in news.items():
            self.follower.refused(key, answer.error)
        for key, asked in tuple(self.wanted.items()):
            told = news.get(key) or self.view[key]._replace(has_records=False)
            assert told == self.leds[key].answer(asked)
            self.view[key] = told
            if told.error in NOT_HERE:
                self.forget(key)

    def forget(self, key: Key) -> None:
        self.follower.forget(key)
        self.wanted.pop(key, None)

    def do(self, what: str, *more: object) -> None:
        match (what, *more):
            case ("moves", key, Led() as led):
                self.leds[key] = led  # type: ignore[index]
            case ("want", key, ReplicaFetch() as asked):
                self.wanted[key] = asked  # type: ignore[index]
                self.follower.want(key, asked)  # type: ignore[arg-type]
            case ("forget", key):
                self.forget(key)  # type: ignore[arg-type]
            case ("exchange",):
                self.exchange()
            case ("answer is lost",):
                self.answer(self.follower.request())
                self.follower.lost()
            case ("connection breaks",):
                self.leader = None


@given(st.lists(ACTIONS, max_size=40))
def test_what_the_follower_knows_is_what_it_would_be_told_in_full(actions: list[tuple[str, object]]) -> None:
    pair = Pair()
    for what, *more in actions:
        pair.do(what, *more)
    pair.exchange()


@given(st.lists(ACTIONS, max_size=40))
def test_an_answer_that_the_follower_did_not_hear_of_is_found_out(actions: list[tuple[str, object]]) -> None:
    """Its own session goes on as if nothing had happened: the epoch gives it away."""
    pair = Pair()
    for key in (A, B):
        pair.do("want", key, ReplicaFetch(1, 0, 0, 0))
    pair.exchange()
    for what, *more in actions:
        if what == "answer is lost":
            pair.answer(SessionRequest(1, 1, {}))
        else:
            pair.do(what, *more)
    pair.exchange()


def test_an_idle_session_says_nothing() -> None:
    pair = Pair()
    said: list[int] = []
    answer = pair.answer

    def counting(request: SessionRequest) -> tuple[ErrorCode, int, dict[Key, ReplicaAnswer]]:
        found = answer(request)
        said.append(len(request.fetches) + len(request.forgotten) + len(found[2]))
        return found

    pair.answer = counting  # type: ignore[method-assign]
    for key in (A, B, C):
        pair.do("want", key, ReplicaFetch(1, 0, 0, 0))
    for _ in range(3):
        pair.exchange()
    assert said == [6, 0, 0]
