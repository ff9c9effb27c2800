"""`penstock cluster elect` and `move` on a real cluster of three, while clients write."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.cluster import Cluster
from tests.support.commands import Finished, environment, penstock
from tests.support.load import create_replicated, under_load
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS, REPLICAS = 3, 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("by-hand"), brokers=3) as started:
        yield started


def run(cluster: Cluster, *arguments: str, stdin: str = "") -> Finished:
    return penstock("cluster", *arguments, "--bootstrap", cluster.bootstrap, stdin=stdin)


def created(cluster: Cluster, topic: str, replicas: int = REPLICAS) -> str:
    create_replicated(cluster.bootstrap, topic, PARTITIONS, replicas)
    cluster.wait_healed([topic])
    return topic


def leaders(cluster: Cluster, topic: str) -> list[int | None]:
    return [cluster.partition(topic, index).get("leader") for index in range(PARTITIONS)]


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    return [cluster.partition(topic, index).get("replicas", []) for index in range(PARTITIONS)]


def wait_led(cluster: Cluster, topic: str, wanted: list[int]) -> None:
    wait_until(lambda: leaders(cluster, topic) == wanted, f"{topic} led by {wanted}")


def test_one_broker_leads_and_leadership_goes_back(cluster: Cluster) -> None:
    topic = created(cluster, "elected")
    with under_load(cluster.bootstrap, topic, PARTITIONS) as load:
        told = run(cluster, "elect", topic, "--leader", "2", "--yes")
        assert told.lines[0].split() == ["TOPIC", "PARTITION", "LEADER", "NEW", "LEADER", "WHY"]
        assert told.lines[-1] == f"2 partitions of {topic} got another leader"
        wait_led(cluster, topic, [2, 2, 2])
        load.goes_on()
        assert all(each[0] == 2 and sorted(each) == [1, 2, 3] for each in replicas(cluster, topic))
        # Whoever comes back does not lead by itself.
        cluster.brokers[2].kill()
        wait_until(lambda: None not in leaders_without(cluster, topic, 2), "other leaders")
        cluster.brokers[2].start()
        cluster.wait_healed([topic])
        assert 2 not in leaders(cluster, topic)
        refused = run(cluster, "elect", topic, stdin="n\n")
        assert refused.code == 1
        assert "it is preferred" in refused.out
        assert 2 not in leaders(cluster, topic)
        (line,) = run(cluster, "elect", f"{topic}:1", "--yes", "--json").lines
        (partition,) = json.loads(line)["partitions"]
        assert (partition["partition"], partition["new_leader"], partition["elected"]) == (1, 2, True)
        wait_until(lambda: leaders(cluster, topic)[1] == 2, "one partition is led as preferred")
        assert leaders(cluster, topic).count(2) == 1
        assert run(cluster, "elect", topic, "--yes").code == 0
        wait_led(cluster, topic, [2, 2, 2])
    assert "led by its preferred replica already" in run(cluster, "elect", topic).out


def leaders_without(cluster: Cluster, topic: str, gone: int) -> list[int | None]:
    return [None if leader == gone else leader for leader in leaders(cluster, topic)]


def test_elections_that_cannot_be_held_are_one_line(cluster: Cluster) -> None:
    topic = created(cluster, "not-elected", replicas=2)
    holders = replicas(cluster, topic)
    index = next(index for index, held in enumerate(holders) if 3 not in held)
    refused = run(cluster, "elect", f"{topic}:{index}", "--leader", "3", "--yes")
    assert refused.complaint == f"{topic}-{index}: broker 3 has no replica of it"
    assert replicas(cluster, topic) == holders
    assert run(cluster, "elect", topic, "--leader", "9", "--yes").complaint == "no broker 9 is running"
    assert run(cluster, "elect", "nothing").complaint == "topic 'nothing' does not exist"
    assert run(cluster, "elect", f"{topic}:7").complaint == f"topic '{topic}' has no partition 7"
    assert "not of the form" in run(cluster, "elect", f"{topic}:x").usage_complaint
    unanswered = run(cluster, "elect", f"{topic}:{index}", "--leader", str(holders[index][1]), "--json")
    assert unanswered.complaint == "--json needs --yes: nobody would see the question"


def test_partitions_move_while_clients_write(cluster: Cluster) -> None:
    topic = created(cluster, "moved", replicas=2)
    with under_load(cluster.bootstrap, topic, PARTITIONS) as load:
        for target in ([1, 2], [3, 1], [2, 3, 1], [2]):
            told = run(cluster, "move", topic, "--to", ",".join(map(str, target)), "--yes").lines
            assert told[0].split()[:3] == ["TOPIC", "PARTITION", "LEADER"]
            assert told[-1].endswith(f" of {topic} moved")
            wait_until(lambda: replicas(cluster, topic) == [target] * PARTITIONS, f"replicas {target}")  # noqa: B023
            wait_led(cluster, topic, [target[0]] * PARTITIONS)
            load.goes_on()
    assert "there already" in run(cluster, "move", topic, "--to", "2").out
    assert run(cluster, "move", topic, "--to", "1,2", "--yes").code == 0
    wait_led(cluster, topic, [1] * PARTITIONS)
    cluster.brokers[1].restart(clean=True)
    cluster.wait_healed([topic])
    assert leaders(cluster, topic) == [2] * PARTITIONS
    told = run(cluster, "move", topic, "--to", "1,2", "--yes", "--no-wait").lines
    assert all(line.endswith("only its leader changes") for line in told[1 : 1 + PARTITIONS])
    assert told[-1] == f"{PARTITIONS} partitions of {topic} moved"
    wait_led(cluster, topic, [1] * PARTITIONS)


def test_an_interrupted_move_goes_on_and_one_that_is_cancelled_does_not(cluster: Cluster) -> None:
    topic = created(cluster, "interrupted", replicas=2)
    created(cluster, "everywhere")
    assert run(cluster, "move", topic, "--to", "1,2", "--yes").code == 0
    with under_load(cluster.bootstrap, topic, PARTITIONS) as load:
        cluster.brokers[3].kill()
        cluster.wait_in_sync("everywhere", {1, 2})
        client = admin(cluster.bootstrap)
        wait_until(lambda: 3 not in client.list_topics(timeout=5).brokers, "clients are told of two brokers")
        out, errors = interrupted(cluster, "move", topic, "--to", "3,1", "--yes")
        assert out[1].endswith("1 live broker, and min.insync.replicas is 2")
        assert errors.startswith("penstock: the move goes on; ")
        assert errors.count("\n") == 1
        assert all(sorted(each) == [1, 2, 3] for each in replicas(cluster, topic))
        load.goes_on()
        (line,) = run(cluster, "move", topic, "--cancel", "--yes", "--json").lines
        assert [each["new_replicas"] for each in json.loads(line)["partitions"]] == [[1, 2]] * PARTITIONS
        wait_until(lambda: replicas(cluster, topic) == [[1, 2]] * PARTITIONS, "all as before")
        assert "none of these" in run(cluster, "move", topic, "--cancel", "--yes").out
        begun = run(cluster, "move", topic, "--to", "3,1", "--yes", "--no-wait")
        assert begun.lines[-1].startswith("the move goes on; ")
        cluster.brokers[3].start()
        again = run(cluster, "move", topic, "--to", "3,1", "--yes")
        assert again.code == 0, again.err
        wait_until(lambda: replicas(cluster, topic) == [[3, 1]] * PARTITIONS, "the move is done")
        wait_led(cluster, topic, [3] * PARTITIONS)


def interrupted(cluster: Cluster, *arguments: str) -> tuple[list[str], str]:
    """What a command prints that gets a Ctrl-C while it waits."""
    command = [sys.executable, "-m", "penstock", "cluster", *arguments, "--bootstrap", cluster.bootstrap]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(1 + PARTITIONS)]
            while "left to copy" not in lines[-1]:
                lines.append(process.stdout.readline())
                assert lines[-1], "it has ended"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 1
    return [line.rstrip("\n") for line in lines], errors


def test_moves_that_cannot_be_are_one_line(cluster: Cluster) -> None:
    topic = created(cluster, "not-moved", replicas=2)
    before = replicas(cluster, topic)
    at = ("move", topic, "--yes", "--to")
    assert run(cluster, *at, "1,9").complaint == "no broker 9 is running or holds a replica"
    assert run(cluster, *at, "1,1").usage_complaint == "--to: '1,1' has a broker more than once"
    assert "is not a list of brokers" in run(cluster, *at, "").usage_complaint
    assert "either --to or --cancel" in run(cluster, "move", topic, "--yes").usage_complaint
    assert "either --to or --cancel" in run(cluster, *at, "1", "--cancel").usage_complaint
    assert run(cluster, "move", "nothing", "--to", "1").complaint == "topic 'nothing' does not exist"
    assert run(cluster, "move", f"{topic}:7", "--to", "1").complaint.endswith("has no partition 7")
    unanswered = run(cluster, "move", topic, "--to", "1,2,3", "--json")
    assert unanswered.complaint == "--json needs --yes: nobody would see the question"
    assert run(cluster, "move", topic, "--to", "1,2,3", stdin="n\n").code == 1
    assert replicas(cluster, topic) == before
