"""`penstock cluster kill --random`: the cluster keeps its promises while its processes are killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.broker.node_status import process_state
from tests.support.commands import environment, penstock
from tests.support.load import create_replicated, under_load
from tests.support.supervised import SupervisedCluster
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.broker import BrokerProcess

PARTITIONS, REPLICAS = 4, 3
KILLS = 5
LINE = re.compile(r"sent SIG(KILL|STOP) to (node [0-9]+|the gateway), process ([0-9]+)")
BACK_S_MAX = 60.0


def in_sync(cluster: SupervisedCluster, topic: str) -> bool:
    partitions = [
        partition
        for each in cluster.status()["topics"]
        if each["name"] == topic
        for partition in each["partitions"]
    ]
    return len(partitions) == PARTITIONS and all(len(each["isr"]) == REPLICAS for each in partitions)


def is_whole(cluster: SupervisedCluster, topic: str) -> bool:
    try:
        return not cluster.missing() and in_sync(cluster, topic)
    except OSError:
        return False  # the gateway is not back yet


def test_what_was_acknowledged_is_there_once_after_random_kills(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, brokers=3, with_gateway=True) as cluster:
        create_replicated(cluster.bootstrap, "orders", PARTITIONS, REPLICAS)
        wait_until(lambda: is_whole(cluster, "orders"), "all replicas in sync", timeout_s=BACK_S_MAX)
        with under_load(cluster.bootstrap, "orders", PARTITIONS) as load:
            told = penstock(
                *("cluster", "kill", "--random", "--every", "1.5", "--count", str(KILLS), "--seed", "3"),
                broker=cluster,
            )
            assert len(told.lines) == KILLS
            killed = [LINE.fullmatch(line) for line in told.lines]
            assert all(killed), told.lines
            assert len({found[2] for found in killed if found}) > 1, told.lines
            load.goes_on()
            wait_until(lambda: is_whole(cluster, "orders"), "everything back", timeout_s=BACK_S_MAX)
        assert all(process_state(int(found[3])) is None for found in killed if found)


@contextmanager
def killer(cluster: SupervisedCluster, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "penstock", "cluster", "kill", "--random", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(cluster)
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def paused(cluster: SupervisedCluster) -> list[int]:
    return [
        pid for pid in cluster.node_pids().values() if pid and (state := process_state(pid)) and state.paused
    ]


def test_who_stands_still_goes_on_in_the_end(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, brokers=3, module="tests.support.fake_penstock_up") as cluster:
        with killer(cluster, "--signal", "STOP", "--every", "600") as process:
            assert process.stdout is not None
            line = LINE.fullmatch(process.stdout.readline().rstrip("\n"))
            assert line is not None
            wait_until(lambda: paused(cluster) == [int(line[3])], "one process stands still")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
            assert (process.returncode, errors) == (0, "")
        assert paused(cluster) == []
        at = ("cluster", "kill", "--random", "--signal", "STOP", "--every", "0.2", "--count", "4")
        assert len(penstock(*at, broker=cluster).lines) == 4
        assert paused(cluster) == []


def test_wrong_usage_is_one_line(broker: BrokerProcess) -> None:
    for options, line in (
        (("1", "--random", "--every", "1"), "leave out the target"),
        (("--random",), "--random needs --every SECONDS"),
        (("1", "--count", "3"), "are for --random"),
    ):
        assert line in penstock("cluster", "kill", *options, broker=broker).usage_complaint
    nobody = penstock("cluster", "kill", broker=broker)
    assert nobody.code == 2
    assert "say who gets the signal, or --random" in nobody.err
    assert broker.running
