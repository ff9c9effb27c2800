"""The checker finds each anomaly in a history that has it, and nothing in one that has none."""

from __future__ import annotations

import pytest

from tests.support.history import Commit, Committed, History, Kind, Outcome, Poll, Send, check, summary

OK, UNKNOWN, FAILED = Outcome.OK, Outcome.UNKNOWN, Outcome.FAILED
Log = list[tuple[int, str]]


def good() -> History:
    """Two writers, a live reader, a late one, and a group: with all that is allowed to happen."""
    log: Log = [(0, "a1"), (1, "b1"), (2, "a2"), (3, "b3"), (5, "a3")]
    return History(
        sends=[
            Send("a", 0, "a1", OK, 0),
            Send("b", 0, "b1", OK, 1),
            Send("a", 0, "a2", UNKNOWN),  # which happened
            Send("b", 0, "b2", UNKNOWN),  # which did not
            Send("b", 0, "b3", OK, 3),
            Send("a", 0, "failed", FAILED),
            Send("a", 0, "a3", OK, 5),
            Send("a", 1, "elsewhere", OK, 0),
        ],
        polls=[
            polled("live", log[:2]),
            Poll("live", 1, ((0, "elsewhere"),)),
            polled("live", log[2:]),
            polled("late", log[3:]),
            polled("final", log),
            Poll("final", 1, ((0, "elsewhere"),)),
        ],
        commits=[
            Commit(0, 2, OK, 1.0, 2.0),
            Commit(0, 4, UNKNOWN, 3.0, 6.0),
            Commit(0, 9, FAILED, 6.5, 6.8),
            Commit(0, 5, OK, 7.0, 9.0),
        ],
        committed=[
            Committed(0, 0, 0.0, 1.5),
            Committed(0, 2, 4.0, 5.0),
            Committed(0, 4, 5.5, 6.0),
            Committed(0, 4, 7.5, 8.0),  # while another is on its way
            Committed(0, 5, 9.5, 10.0),
        ],
        complete={"live", "final"},
    )


def polled(reader: str, records: Log) -> Poll:
    return Poll(reader, 0, tuple(records))


def kinds(history: History) -> set[Kind]:
    return {anomaly.kind for anomaly in check(history)}


def with_final(log: Log, *sends: Send) -> History:
    """One reader alone, which has read this log from its start to its end."""
    return History(sends=list(sends), polls=[polled("final", log)], complete={"final"})


def test_a_good_history() -> None:
    assert check(good()) == []


def test_lost_write() -> None:
    history = with_final([(0, "a1"), (2, "a3")], *written("a1", "a2", "a3"))
    assert kinds(history) == {Kind.LOST, Kind.SKIPPED_POLL}


def test_a_write_that_others_have_seen_is_lost_too() -> None:
    history = with_final([(0, "a1"), (2, "a3")], Send("a", 0, "a1", OK, 0), Send("a", 0, "a2", UNKNOWN))
    history.sends.append(Send("a", 0, "a3", OK, 2))
    assert check(history) == []
    history.polls.append(polled("live", [(1, "a2")]))
    assert Kind.LOST in kinds(history)


def test_a_replaced_write_is_lost() -> None:
    history = with_final([(0, "a1"), (1, "b1")], *written("a1", "a2"), Send("b", 0, "b1", OK, 1))
    assert kinds(history) == {Kind.LOST, Kind.INCONSISTENT}


def test_unseen_write() -> None:
    assert kinds(with_final([(0, "a1")], *written("a1", "a2"))) == {Kind.UNSEEN}
    assert kinds(with_final([], *written("a1"))) == {Kind.UNSEEN}


def test_duplicate() -> None:
    history = with_final([(0, "a1"), (1, "a2"), (2, "a1")], *written("a1", "a2"))
    assert kinds(history) == {Kind.DUPLICATE}


def test_reordered() -> None:
    sends = [Send("a", 0, "a1", OK, 1), Send("a", 0, "a2", OK, 0)]
    assert kinds(with_final([(0, "a2"), (1, "a1")], *sends)) == {Kind.REORDERED}


def test_reordered_around_one_that_is_not_known() -> None:
    sends = [Send("a", 0, "a1", UNKNOWN), Send("a", 0, "a2", OK, 0), Send("a", 0, "a3", OK, 2)]
    assert kinds(with_final([(0, "a2"), (1, "a1"), (2, "a3")], *sends)) == {Kind.REORDERED}


def test_two_writers_may_be_stored_in_any_order() -> None:
    sends = [Send("a", 0, "a1", OK, 1), Send("b", 0, "b1", OK, 0)]
    assert check(with_final([(0, "b1"), (1, "a1")], *sends)) == []


def test_inconsistent_offset_between_readers() -> None:
    sends = [Send("a", 0, "a1", UNKNOWN), Send("b", 0, "b1", UNKNOWN)]
    history = with_final([(0, "a1")], *sends)
    history.polls.append(polled("live", [(0, "b1")]))
    assert Kind.INCONSISTENT in kinds(history)


def test_inconsistent_offset_of_an_acknowledgement() -> None:
    """It is there once, at another offset than the writer was told."""
    sends = [Send("a", 0, "a1", OK, 1), Send("b", 0, "b1", OK, 1)]
    assert kinds(with_final([(0, "a1"), (1, "b1")], *sends)) == {Kind.INCONSISTENT}


def test_aborted_read() -> None:
    assert kinds(with_final([(0, "a1")], Send("a", 0, "a1", FAILED))) == {Kind.ABORTED_READ}


def test_phantom() -> None:
    assert kinds(with_final([(0, "a1")])) == {Kind.PHANTOM}
    assert kinds(with_final([(0, "a1")], Send("a", 1, "a1", UNKNOWN))) == {Kind.PHANTOM}


@pytest.mark.parametrize("again", [0, 1])
def test_non_monotonic_poll(again: int) -> None:
    log: Log = [(0, "a1"), (1, "a2")]
    history = with_final(log, *written("a1", "a2"))
    history.polls += [polled("live", log), polled("live", log[again : again + 1])]
    assert kinds(history) == {Kind.NON_MONOTONIC_POLL}


def test_skipped_poll() -> None:
    log: Log = [(0, "a1"), (1, "a2"), (2, "a3")]
    history = with_final(log, *written("a1", "a2", "a3"))
    history.polls += [polled("live", log[:1]), polled("live", log[2:])]
    assert kinds(history) == {Kind.SKIPPED_POLL}


def test_skipped_at_the_start() -> None:
    history = with_final([(0, "a1"), (1, "a2")], *written("a1", "a2"))
    history.polls.append(polled("live", [(1, "a2")]))
    assert check(history) == []
    history.complete.add("live")
    assert kinds(history) == {Kind.SKIPPED_POLL, Kind.LOST}


def test_committed_offset_went_back() -> None:
    history = good()
    history.committed.append(Committed(0, 4, 11.0, 12.0))
    assert kinds(history) == {Kind.COMMITTED_WENT_BACK}


def test_committed_offset_went_back_from_what_was_read() -> None:
    """What was read is committed, whatever became of the attempt."""
    history = good()
    history.committed.append(Committed(0, 2, 6.2, 6.4))
    assert kinds(history) == {Kind.COMMITTED_WENT_BACK}


def test_committed_offset_is_gone() -> None:
    history = good()
    history.committed.append(Committed(0, 0, 11.0, 12.0))
    assert kinds(history) == {Kind.COMMITTED_WENT_BACK}


def test_a_commit_of_one_who_is_no_longer_a_member() -> None:
    history = good()
    history.commits.append(Commit(0, 3, OK, 11.0, 12.0))
    assert kinds(history) == {Kind.COMMITTED_WENT_BACK}


@pytest.mark.parametrize("offset", [3, 9])
def test_phantom_commit(offset: int) -> None:
    history = History(
        commits=[Commit(0, 2, OK, 1.0, 2.0), Commit(0, 9, FAILED, 2.0, 3.0)],
        committed=[Committed(0, offset, 3.0, 4.0)],
    )
    assert kinds(history) == {Kind.PHANTOM_COMMIT}


def test_partitions_do_not_explain_each_other() -> None:
    history = History(
        sends=[Send("a", 0, "a1", OK, 0), Send("a", 1, "a2", OK, 0)],
        polls=[Poll("final", 1, ((0, "a1"),))],
        complete={"final"},
    )
    assert {(each.kind, each.partition) for each in check(history)} == {
        (Kind.UNSEEN, 0),
        (Kind.PHANTOM, 1),
        (Kind.INCONSISTENT, 1),
        (Kind.LOST, 1),
    }


def test_the_summary_counts_and_shows() -> None:
    values = [f"a{number}" for number in range(20)]
    text = summary(check(with_final([], *written(*values))))
    assert text.startswith("20 × unseen write")
    assert text.count("\n") == 5


def written(*values: str) -> list[Send]:
    """By one writer, acknowledged at the offsets from 0 on."""
    return [Send("a", 0, value, OK, offset) for offset, value in enumerate(values)]
