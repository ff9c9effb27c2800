"""`penstock transactions` against a running broker. The commands run in this process: there are many."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException

from penstock.cli import app
from tests.support.commands import Finished
from tests.support.topics import create_topic
from tests.support.transactions import read, send, transactional
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from tests.support.broker import BrokerProcess

TIMEOUT = 20.0

Run = Callable[..., Finished]


@pytest.fixture
def run(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str) -> Finished:
        code = app.run(["transactions", *arguments, "--bootstrap", shared_broker.bootstrap])
        return Finished(code, *capsys.readouterr())

    return run_command


def asked(run: Run, *arguments: str) -> dict[str, Any]:
    return dict(json.loads(run(*arguments, "--json").lines[0]))


def open_one(bootstrap: str, topic: str) -> Producer:
    """A transaction of an id with the topic's name: "open", and before it what is committed, "before"."""
    create_topic(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    send(producer, topic, b"before")
    producer.commit_transaction(TIMEOUT)
    producer.begin_transaction()
    send(producer, topic, b"open")
    return producer


def test_from_open_to_aborted(shared_broker: BrokerProcess, run: Run, topic: str) -> None:
    producer = open_one(shared_broker.bootstrap, topic)
    described = asked(run, "describe", topic)
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert described["started_ms"] is not None
    assert described in asked(run, "list")["transactions"]
    assert [each for each in asked(run, "hanging")["hanging"] if each["topic"] == topic] == []
    lines = run("describe", topic).lines
    assert lines[0].startswith(f"{topic}: Ongoing, open since ")
    assert lines[-1].split() == [topic, "0"]

    done = run("abort", "--id", topic)
    assert done.lines == [f"{topic} has no open transaction, and its producer is fenced"]
    assert asked(run, "describe", topic)["state"] == "Empty"
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT)
    assert read(shared_broker.bootstrap, topic) == [b"before"]


def test_one_that_takes_too_long_is_found_and_ended_in_its_partition(
    shared_broker: BrokerProcess, run: Run, topic: str
) -> None:
    producer = open_one(shared_broker.bootstrap, topic)

    def hanging() -> list[dict[str, Any]]:
        found = asked(run, "hanging", "--seconds", "1", "--broker", "1")["hanging"]
        return [each for each in found if each["topic"] == topic]

    (found,) = wait_until(hanging, "a transaction of more than a second")
    assert found["reason"].startswith("Ongoing for ")
    where = [topic, "0", "--start-offset", str(found["start_offset"])]
    refused = run("abort", *where)
    assert refused.complaint.startswith(f"it does not hang: {topic!r} has it, Ongoing in 1 partition;")
    done = run("abort", *where, "--force")
    assert done.lines[0].startswith("aborted the transaction of producer ")
    assert read(shared_broker.bootstrap, topic) == [b"before"]
    assert hanging() == []
    producer.abort_transaction(TIMEOUT)


def test_what_is_not_there(shared_broker: BrokerProcess, run: Run, topic: str) -> None:
    create_topic(shared_broker.bootstrap, topic)
    unknown_id = "transactional id 'no-such-id' does not exist"
    assert run("describe", "no-such-id").complaint == unknown_id
    assert run("abort", "--id", "no-such-id").complaint == unknown_id
    nowhere = f"no open transaction of {topic}-0 begins at 5: none is open there"
    assert run("abort", topic, "0", "--start-offset", "5").complaint == nowhere
    assert run("abort", topic, "7", "--start-offset", "5").complaint == f"topic {topic!r} has no partition 7"
    assert run("abort", "no-such", "0", "--start-offset", "5").complaint == "there is no topic 'no-such'"


@pytest.mark.parametrize(
    "arguments",
    [[], ["t"], ["t", "0"], ["t", "0", "--id", "i", "--start-offset", "1"], ["--id", "i", "--force"]],
)
def test_wrong_usage(run: Run, arguments: list[str]) -> None:
    assert run("abort", *arguments).code == 2
