"""`penstock cluster decommission` against a cluster that is made up."""

from __future__ import annotations

import json
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli import cluster_decommission
from penstock.cli.cluster_decommission import decommission
from penstock.cli.cluster_requests import NoAnswerError
from penstock.cli.output import CommandFailed
from penstock.types import ErrorCode

MOVING = ErrorCode.reassignment_in_progress
Answer = tuple[ErrorCode, str | None] | NoAnswerError


class World:
    """A cluster of brokers 1 to 4, and the answers to UnregisterBroker, of which the last stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.configs: dict[str, Any] = {"flush": None, "num.partitions": None}
        self.brokers = [1, 2, 3, 4]
        self.held = [4, 4, 4]
        """Replicas on broker 4, each time that the metadata are asked for; the last stays."""
        self.answers: list[Answer] = [(ErrorCode.none, None)]
        self.asked: list[tuple[int, int]] = []
        """(port, broker id)"""
        monkeypatch.setattr(cluster_decommission, "ASK_AGAIN_S", 0.001)
        monkeypatch.setattr(cluster_decommission, "connect", lambda _bootstrap: self)
        monkeypatch.setattr(cluster_decommission, "cluster_metadata", lambda *_: self.metadata())
        monkeypatch.setattr(cluster_decommission, "ask_broker", self.unregister)

    def metadata(self) -> Any:
        count = self.held.pop(0) if len(self.held) > 1 else self.held[0]
        partitions = {
            index: SimpleNamespace(replicas=[1, 2, 4 if index < count else 3]) for index in range(6)
        }
        return SimpleNamespace(
            cluster_id="abc",
            brokers={each: SimpleNamespace(id=each, host="h", port=9091 + each) for each in self.brokers},
            topics={"t": SimpleNamespace(partitions=partitions)},
        )

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        future.set_result(self.configs)
        return dict.fromkeys(resources, future)

    def unregister(self, _host: str, port: int, _api: tuple[int, int], body: dict[str, int]) -> Any:
        self.asked.append((port, body["broker_id"]))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, NoAnswerError):
            raise answer
        return SimpleNamespace(error_code=answer[0], error_message=answer[1])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_it_asks_until_the_broker_is_out(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.answers = [(MOVING, "…")] * 4 + [(ErrorCode.none, None)]
    world.held = [3, 3, 3, 3, 1, 0]
    decommission(4)
    assert capsys.readouterr().out.splitlines() == [
        "broker 4 holds 3 replicas, to be moved",
        "broker 4 holds 1 replica, to be moved",
        "broker 4 is no longer part of the cluster",
    ]
    assert world.asked == [(9092, 4)] * 5


def test_in_json(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.answers = [(MOVING, "…"), (ErrorCode.none, None)]
    world.held = [3, 3, 2, 0]
    decommission(4, json=True)
    told = json.loads(capsys.readouterr().out)
    assert told == {"broker": 4, "replicas": 3, "replicas_left": 0, "unregistered": True}


def test_it_only_begins(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.answers = [(MOVING, "…")]
    decommission(4, wait=False)
    assert len(world.asked) == 1
    assert capsys.readouterr().out.splitlines()[0] == "broker 4 holds 4 replicas, to be moved"


def test_another_cluster_than_penstock_is_asked_for_nothing(world: World) -> None:
    """Kafka would forget the broker with all that it holds."""
    del world.configs["flush"]
    with pytest.raises(CommandFailed, match="cluster abc is not one of Penstock"):
        decommission(4)
    assert world.asked == []


def test_the_answer_of_the_controller_is_the_line(world: World) -> None:
    world.answers = [(ErrorCode.invalid_replication_factor, "Broker 4 cannot be decommissioned: so.")]
    with pytest.raises(CommandFailed, match=r"^Broker 4 cannot be decommissioned: so$"):
        decommission(4)


def test_a_broker_that_is_not_there(world: World) -> None:
    world.answers = [(ErrorCode.broker_id_not_registered, "No broker 9 is registered.")]
    with pytest.raises(CommandFailed, match="No broker 9 is registered"):
        decommission(9)


def test_an_answer_that_was_lost(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """It was the one that said that the broker is out."""
    lost = [NoAnswerError("no answer")] * len(world.brokers)
    world.answers = [*lost, (ErrorCode.broker_id_not_registered, "No broker 4 is registered.")]
    decommission(4)
    assert capsys.readouterr().out.splitlines()[-1] == "broker 4 is no longer part of the cluster"
    assert [port for port, _ in world.asked] == [9092, 9093, 9094, 9095, 9092]


def test_the_one_that_leaves_is_asked_last(world: World) -> None:
    world.answers = [NoAnswerError("down")] * 3 + [(ErrorCode.none, None)]
    decommission(1, json=True)
    assert [port for port, _ in world.asked] == [9093, 9094, 9095, 9092]


def test_nobody_answers_for_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_decommission, "SILENCE_S_MAX", 0.02)
    world.answers = [NoAnswerError("h:9095: no answer in 10 s")]
    with pytest.raises(CommandFailed, match="h:9095: no answer in 10 s"):
        decommission(4)
    assert len(world.asked) > 4
