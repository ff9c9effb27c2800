from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(Session, "level_ground", lambda _: None)
    session = Session(rounds=2, seconds=0.1, quick=True, budget_seconds=60)
    yield session
    session.close()


def test_every_side_takes_every_place_and_the_first_round_does_not_count(session: Session) -> None:
    ran: list[str] = []

    def run(name: str) -> int:
        ran.append(name)
        return len(ran)

    results = session.in_turn(["a", "b"], run)
    assert ran == ["a", "b", "b", "a", "a", "b"]
    assert results == {"a": [4, 5], "b": [3, 6]}


def test_out_of_time_one_round_must_do(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    monkeypatch.setattr(Session, "out_of_time", True)
    assert session.in_turn(["a", "b"], len) == {"a": [1], "b": [1]}
