"""What `penstock cluster move` decides, and how it waits, on a cluster that is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli import cluster_move
from penstock.cli.cluster_move import Watch, finish
from penstock.cli.cluster_move_plan import Minimum, Move, parse_ids, plan, plan_cancelling
from penstock.cli.cluster_reassignments import Ongoing
from penstock.cli.output import CommandFailed, WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable

LIVE = {1, 2, 3, 4}
SET_TO_2 = Minimum(2, is_default=False)


def partition(leader: int, replicas: list[int], isr: list[int] | None = None) -> Any:
    return SimpleNamespace(leader=leader, replicas=replicas, isrs=replicas if isr is None else isr)


def test_what_is_copied_where() -> None:
    partitions = {0: partition(1, [1, 2]), 1: partition(2, [2, 3]), 2: partition(3, [3, 2])}
    moves = plan(partitions, {}, (3, 2), {(1, 0): 100, (2, 1): 7}, LIVE, SET_TO_2)
    assert moves == [
        Move(0, 1, (1, 2), (3, 2), adding=(3,), size_bytes=100),
        Move(1, 2, (2, 3), (3, 2)),
    ]


def test_what_is_on_its_way_counts_from_where_it_began() -> None:
    ongoing = {0: Ongoing((3, 4, 1, 2), (3, 4), (1, 2))}
    (move,) = plan({0: partition(1, [3, 4, 1, 2])}, ongoing, (3, 4), {(1, 0): 10}, LIVE, SET_TO_2)
    assert move == Move(0, 1, (1, 2), (3, 4), (3, 4), 20, "on its way to 3,4")


def test_what_is_there_and_led_by_another_one_gets_its_leader() -> None:
    (move,) = plan({0: partition(1, [3, 1])}, {}, (3, 1), {(1, 0): 10}, LIVE, SET_TO_2)
    assert move == Move(0, 1, (3, 1), (3, 1), note="only its leader changes", is_there=True)


def test_a_move_that_goes_back_is_a_move() -> None:
    ongoing = {0: Ongoing((3, 1, 2), (3,), (2,))}
    (move,) = plan({0: partition(1, [3, 1, 2])}, ongoing, (1, 2), {(1, 0): 10}, LIVE, SET_TO_2)
    assert move == Move(0, 1, (1, 2), (1, 2), note="on its way to 3,1")


def test_moves_under_way_go_back_when_they_are_cancelled() -> None:
    ongoing = {1: Ongoing((3, 1, 2), (3,), (2,))}
    partitions = {0: partition(1, [1, 2]), 1: partition(1, [3, 1, 2])}
    assert plan_cancelling(partitions, ongoing) == [Move(1, 1, (3, 1, 2), (1, 2))]


@pytest.mark.parametrize(
    ("target", "live", "minimum", "note"),
    [
        ((1, 2, 3), LIVE, SET_TO_2, None),
        ((1, 2, 3), {1, 2}, SET_TO_2, "waits for 3, not running"),
        ((1, 2, 3), {1}, SET_TO_2, "1 live broker, and min.insync.replicas is 2"),
        ((1,), LIVE, SET_TO_2, "1 live broker, and min.insync.replicas is 2"),
        ((1,), LIVE, Minimum(2, is_default=True), None),
        ((1,), set(), Minimum(2, is_default=True), "0 live brokers, and min.insync.replicas is 1"),
        ((1, 2, 3), {1}, Minimum(1, is_default=True), "waits for 2,3, not running"),
    ],
)
def test_a_target_below_the_minimum_is_warned_of(
    target: tuple[int, ...], live: set[int], minimum: Minimum, note: str | None
) -> None:
    (move,) = plan({0: partition(4, [4])}, {}, target, {}, live, minimum)
    assert move.note == note


def test_lists_of_brokers() -> None:
    assert parse_ids("3, 1,2") == (3, 1, 2)
    for text in ("", ",", "1,", "a", "-1", "1,2,1"):
        with pytest.raises(WrongUsage):
            parse_ids(text)


class World:
    """One partition of topic t that moves from 1,2 to 3,1; each look at it sees the next of its states."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *states: tuple[Ongoing | None, Any, int]) -> None:
        self.states = list(states)
        self.elected: list[list[int]] = []
        self.on_look: Callable[[], None] = lambda: None
        monkeypatch.setattr(cluster_move, "ASK_AGAIN_S", 0.0)
        monkeypatch.setattr(cluster_move, "SETTLED_S_MAX", 0.0)
        monkeypatch.setattr(cluster_move, "LINE_EVERY_S", 0.0)
        monkeypatch.setattr(cluster_move, "cluster_metadata", lambda *_: self.metadata())

    def metadata(self) -> Any:
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: self.states[0][1]})})

    def ongoing(self, _partitions: Any) -> dict[int, Ongoing]:
        if len(self.states) > 1:
            del self.states[0]
        self.on_look()
        listed = self.states[0][0]
        return {} if listed is None else {0: listed}

    def sizes(self, _partitions: Any) -> dict[tuple[int, int], int]:
        return {(1, 0): 1_000, (3, 0): self.states[0][2]}

    def elect_preferred(self, partitions: list[int]) -> dict[int, str]:
        self.elected.append(partitions)
        return {}

    def watch(self) -> Watch:
        move = Move(0, 1, (1, 2), (3, 1), adding=(3,), size_bytes=1_000)
        return Watch(None, "h:1", "t", self, {0: move})  # type: ignore[arg-type]


MOVING = Ongoing((3, 1, 2), (3,), (2,))
BEFORE, UNDER_WAY = partition(1, [1, 2]), partition(1, [3, 1, 2], [1, 2])
DONE, LED = partition(1, [3, 1], [1, 3]), partition(3, [3, 1], [1, 3])


def test_it_waits_for_the_end_and_then_has_the_first_one_lead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(
        monkeypatch,
        (None, BEFORE, 0),
        (MOVING, UNDER_WAY, 200),
        (MOVING, UNDER_WAY, 990),
        (None, DONE, 1_000),
    )
    assert finish(world.watch(), shown=True) == {}
    assert capsys.readouterr().out.splitlines() == ["800 bytes left to copy", "10 bytes left to copy"]
    assert world.elected == [[0]]


def test_who_leads_already_is_not_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, (None, LED, 1_000))
    assert finish(world.watch(), shown=False) == {}
    assert world.elected == [[]]


def test_brokers_that_have_not_heard_of_the_move_do_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one that has heard of the new replicas and lists no move; they are not in sync."""
    world = World(
        monkeypatch,
        (None, BEFORE, 0),
        (None, BEFORE, 0),
        (None, partition(1, [3, 1], [1]), 0),
        (MOVING, UNDER_WAY, 0),
        (None, LED, 0),
    )
    monkeypatch.setattr(cluster_move, "SETTLED_S_MAX", 60.0)
    assert finish(world.watch(), shown=False) == {}
    assert len(world.states) == 1


@pytest.mark.parametrize(
    "after", [(None, BEFORE, 0), (Ongoing((2, 4, 1), (4,), (1,)), partition(1, [2, 4, 1]), 0)]
)
def test_a_move_that_somebody_else_changed_is_told(monkeypatch: pytest.MonkeyPatch, after: Any) -> None:
    world = World(monkeypatch, (None, BEFORE, 0), (MOVING, UNDER_WAY, 10), after)
    failures = finish(world.watch(), shown=False)
    assert failures[0].startswith("another request has changed the move; its replicas are ")
    assert world.elected == [[]]


def test_an_interrupt_leaves_the_move_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, (MOVING, UNDER_WAY, 10))

    def interrupt() -> None:
        raise KeyboardInterrupt

    world.on_look = interrupt
    with pytest.raises(CommandFailed, match="the move goes on"):
        finish(world.watch(), shown=False)
    assert world.elected == []


def test_silence_is_borne_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, (None, LED, 1_000))
    silent = iter([True, True, False])

    def maybe_silent() -> None:
        if next(silent):
            raise CommandFailed("nobody answers")

    world.on_look = maybe_silent
    assert finish(world.watch(), shown=False) == {}
    monkeypatch.setattr(cluster_move, "SILENCE_S_MAX", 0.0)
    silent = iter([True])
    with pytest.raises(CommandFailed, match="nobody answers"):
        finish(world.watch(), shown=False)
