"""`penstock cluster kill --random` on a cluster that is made up."""

from __future__ import annotations

import random
import signal
import socket
from typing import Any

import pytest
import typer

from penstock.cli import cluster_faults
from penstock.cli.cluster_endpoint import NoEndpoint
from penstock.cli.cluster_faults import Killer, NobodyRuns, ProcessEnded, choose, kill
from penstock.cli.output import CommandFailed, WrongUsage

ENDPOINT = "http://127.0.0.1:8080"


def node(name: int | str, state: str = "running", **more: Any) -> dict[str, Any]:
    pid = None if state == "down" else 100 + (name if isinstance(name, int) else len(name))
    return {"id": name, "pid": pid, "state": state, **more}


def told(*nodes: dict[str, Any]) -> dict[str, Any]:
    brokers = [each for each in nodes if isinstance(each["id"], int) and each["id"] < 1001]
    return {"brokers": brokers, "nodes": [each for each in nodes if each not in brokers]}


EVERYTHING = told(
    node(1), node(2, "fenced"), node(1001), node("gateway"), node("flights"), node("supervisor")
)


def chosen(what: dict[str, Any], seed: int, count: int) -> list[int | str]:
    chance = random.Random(seed)
    return [choose(what, chance)["id"] for _ in range(count)]


def test_every_process_but_the_supervisor_is_chosen() -> None:
    assert set(chosen(EVERYTHING, 1, 200)) == {1, 2, 1001, "gateway", "flights"}


def test_the_same_seed_chooses_the_same() -> None:
    assert chosen(EVERYTHING, 7, 20) == chosen(EVERYTHING, 7, 20) != chosen(EVERYTHING, 8, 20)


def test_one_that_is_down_changes_no_other_draw() -> None:
    without = told(node(1), node(2, "down"), node(1001), node("gateway"), node("flights"), node("supervisor"))
    pairs = list(zip(chosen(EVERYTHING, 7, 50), chosen(without, 7, 50), strict=True))
    assert all(before == after for before, after in pairs if before != 2)
    assert 2 not in {after for _, after in pairs}


@pytest.mark.parametrize("state", ["down", "starting", "paused"])
def test_what_does_not_run_is_left_alone(state: str) -> None:
    with pytest.raises(NobodyRuns):
        choose(told(node(1, state), node("supervisor")), random.Random(1))


def test_a_service_on_another_machine_is_left_alone() -> None:
    elsewhere = told(node(1), node("flights", host=f"not-{socket.gethostname()}"))
    assert set(chosen(elsewhere, 1, 30)) == {1}
    assert "flights" in chosen(told(node(1), node("flights", host=socket.gethostname())), 1, 30)


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[dict[str, Any] | Exception] = [EVERYTHING]
        """Of the endpoint; the last stays."""
        self.sent: list[tuple[str, str]] = []
        self.slept: list[float] = []
        self.ended: set[str] = set()
        monkeypatch.setattr(cluster_faults, "ask", self.ask)
        monkeypatch.setattr(cluster_faults, "send", self.send)
        monkeypatch.setattr(cluster_faults.time, "sleep", self.sleep)

    def ask(self, *_: str) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def send(self, _pid: int, number: signal.Signals, name: str, _mark: bytes) -> None:
        if name in self.ended:
            self.ended.remove(name)
            raise ProcessEnded(f"{name} has just ended")
        self.sent.append((number.name, name))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) > 100:
            raise KeyboardInterrupt

    def killer(self, number: signal.Signals = signal.SIGKILL) -> Killer:
        return Killer(ENDPOINT, number, random.Random(1))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_so_many_and_a_line_for_each(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.killer().run(5.0, 3)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"sent SIGKILL to {name}" for _, name in world.sent]
    assert len(lines) == 3
    assert len(world.slept) == 2, "it does not wait after the last"


def test_until_it_is_interrupted(world: World) -> None:
    world.killer().run(5.0, None)
    assert len(world.sent) == 101


def test_who_is_paused_goes_on_before_the_next_one_stands_still(world: World) -> None:
    world.killer(signal.SIGSTOP).run(5.0, 3)
    assert [number for number, _ in world.sent] == ["SIGSTOP", "SIGCONT"] * 3
    assert [name for _, name in world.sent[::2]] == [name for _, name in world.sent[1::2]]
    assert len(world.slept) == 3, "the last one is paused as long as the others"


def test_an_endpoint_that_was_killed_and_a_process_that_has_ended_are_waited_for(world: World) -> None:
    only = told(node(1))
    world.answers = [only, NoEndpoint("killed"), told(node(1, "starting")), only]
    world.ended = {"node 1"}
    world.killer().run(5.0, 1)
    assert world.sent == [("SIGKILL", "node 1")]
    assert world.slept == [cluster_faults.LOOK_AGAIN_S] * 3


def test_it_does_not_wait_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_faults, "SILENCE_S_MAX", 0.0)
    world.answers = [EVERYTHING, NoEndpoint("nobody there")]
    with pytest.raises(CommandFailed, match="nobody there"):
        world.killer().run(5.0, None)
    world.answers = [NoEndpoint("nobody there")]
    with pytest.raises(CommandFailed, match="nobody there"):
        world.killer().run(5.0, None)
    assert world.slept == []


@pytest.mark.parametrize(
    "options",
    [
        {"target": "1", "by_chance": True, "every": 1.0},
        {"by_chance": True},
        {"target": "1", "every": 1.0},
        {"target": "1", "count": 1},
        {"target": "1", "seed": 1},
    ],
)
def test_what_cannot_be_meant(world: World, options: dict[str, Any]) -> None:
    with pytest.raises(WrongUsage):
        kill(**options)
    assert world.sent == []


def test_somebody_must_be_named(world: World) -> None:
    with pytest.raises(typer.BadParameter):
        kill()
    assert world.sent == []
