"""The checker finds each anomaly that is planted, and nothing in a history that is as it should be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.history import Anomaly, Kind, Outcome
from tests.support.transaction_history import (
    Seen,
    Transaction,
    TransactionAnomaly,
    TransactionHistory,
    TransactionKind,
    Written,
    check_copy,
    check_transactions,
    report,
    values_of,
)


def healthy() -> TransactionHistory:
    """Two writers over two partitions: one commit, one abort, one of unknown outcome that happened."""
    return TransactionHistory(
        transactions=[
            Transaction("a", [Written(0, "a1", 0), Written(1, "a2", 0)], Outcome.OK, 1.0),
            Transaction("a", [Written(0, "a3", 2), Written(1, "a4", 2)], Outcome.FAILED),
            Transaction("b", [Written(0, "b1"), Written(1, "b2", 4)], Outcome.UNKNOWN, 3.0),
        ],
        seen=[
            Seen("live", 0, ((0, "a1"),), 1.5),
            Seen("end", 0, ((0, "a1"), (4, "b1")), 9.0),
            Seen("end", 1, ((0, "a2"), (4, "b2")), 9.0),
        ],
        complete={"end"},
    )


def test_a_healthy_history() -> None:
    history = healthy()
    assert check_transactions(history) == []
    assert values_of(history, "end") == {0: ["a1", "b1"], 1: ["a2", "b2"]}


def test_an_unknown_outcome_may_be_nothing_at_all() -> None:
    history = healthy()
    history.seen = [
        Seen("end", 0, ((0, "a1"),), 9.0),
        Seen("end", 1, ((0, "a2"),), 9.0),
    ]
    assert check_transactions(history) == []


def end(*records: tuple[int, int, str]) -> list[Seen]:
    return [Seen("end", partition, ((offset, value),), 9.0) for partition, offset, value in records]


def aborted_read(history: TransactionHistory) -> None:
    history.seen += [Seen("live", 0, ((2, "a3"),), 5.0)]


def lost_write(history: TransactionHistory) -> None:
    history.seen = end((0, 4, "b1"), (1, 4, "b2"))


def torn_commit(history: TransactionHistory) -> None:
    history.seen = end((0, 0, "a1"), (0, 4, "b1"), (1, 4, "b2"))


def torn_unknown(history: TransactionHistory) -> None:
    history.seen = end((0, 0, "a1"), (1, 0, "a2"), (0, 4, "b1"))


def torn_abort(history: TransactionHistory) -> None:
    history.seen += end((1, 5, "a4"))


def intermediate_read(history: TransactionHistory) -> None:
    history.seen += [Seen("live", 1, ((0, "a2"),), 0.9)]


def open_read(history: TransactionHistory) -> None:
    history.seen += [Seen("live", 1, ((2, "a4"),), 8.0)]


def doubled(history: TransactionHistory) -> None:
    history.seen += end((0, 6, "a1"))


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (aborted_read, Kind.ABORTED_READ),
        (lost_write, Kind.LOST),
        (torn_commit, TransactionKind.TORN),
        (torn_unknown, TransactionKind.TORN),
        (torn_abort, TransactionKind.TORN),
        (intermediate_read, TransactionKind.TOO_SOON),
        (open_read, TransactionKind.TOO_SOON),
        (doubled, Kind.DUPLICATE),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
def test_planted_anomalies_are_found(
    plant: Callable[[TransactionHistory], None], kind: Kind | TransactionKind
) -> None:
    history = healthy()
    plant(history)
    found = check_transactions(history)
    assert kind in {each.kind for each in found if isinstance(each, Anomaly | TransactionAnomaly)}
    assert kind.value in report(found)


@pytest.mark.parametrize(
    ("copied", "text"),
    [
        (["1", "3"], "2 was left out"),
        (["1", "2", "2", "3"], "2 came 2 times"),
        (["1", "2", "3", "4"], "4 came from nowhere"),
        (["1", "3", "2"], "2 came after 3"),
    ],
)
def test_a_copy_that_is_not_one(copied: list[str], text: str) -> None:
    assert [each.text for each in check_copy(["1", "2", "3"], copied)] == [text]


def test_a_copy() -> None:
    assert check_copy(["1", "2", "3"], ["1", "2", "3"]) == []


def test_a_long_report_is_cut() -> None:
    assert report(range(25)).splitlines()[-1] == "and 5 more"
