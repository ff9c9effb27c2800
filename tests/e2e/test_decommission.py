"""`penstock cluster decommission`: a broker leaves while clients write, and takes nothing with it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from penstock.broker.node_status import process_state
from tests.support.cluster import Cluster
from tests.support.commands import environment, penstock
from tests.support.load import create_replicated, under_load
from tests.support.supervised import SupervisedCluster
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker import BrokerProcess

PARTITIONS, REPLICAS = 6, 3
OUT_SECONDS_MAX = 60.0


def partitions_of(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Without how busy they are."""
    found = [partition for topic in status.get("topics", []) for partition in topic["partitions"]]
    return [{name: told for name, told in each.items() if name != "load"} for each in found]


def holders(status: dict[str, Any]) -> set[int]:
    return {broker for partition in partitions_of(status) for broker in partition["replicas"]}


def broker_ids(status: dict[str, Any]) -> list[int]:
    return [broker["id"] for broker in status["brokers"]]


def wait_in_sync(cluster: Cluster | SupervisedCluster) -> None:
    def is_in_sync() -> bool:
        partitions = partitions_of(cluster.status())
        return bool(partitions) and all(
            len(each["isr"]) == len(each["replicas"]) == REPLICAS for each in partitions
        )

    wait_until(is_in_sync, "everything in sync", timeout_s=OUT_SECONDS_MAX)


def decommission_watched(cluster: Cluster | SupervisedCluster, node_id: int) -> list[str]:
    """What the command prints; meanwhile no partition has fewer in-sync replicas than it should."""
    command = [sys.executable, "-m", "penstock", "cluster", "decommission", str(node_id)]
    with subprocess.Popen(
        [*command, "--bootstrap", cluster.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            wait_until(lambda: watched(cluster, process), "its end", timeout_s=OUT_SECONDS_MAX)
        finally:
            process.kill()
        out, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    return out.splitlines()


def watched(cluster: Cluster | SupervisedCluster, process: subprocess.Popen[str]) -> bool:
    for partition in partitions_of(cluster.status()):
        assert len(partition["isr"]) >= REPLICAS, partition
        assert partition["leader"] is not None
    return process.poll() is not None


def check_lines(lines: list[str], node_id: int) -> None:
    assert lines[-1] == f"broker {node_id} is no longer part of the cluster"
    assert lines[0].startswith(f"broker {node_id} holds ")
    assert all(line.endswith("to be moved") for line in lines[:-1])


def test_under_load_in_a_local_cluster(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, brokers=4) as cluster:
        create_replicated(cluster.bootstrap, "orders", PARTITIONS, REPLICAS)
        wait_in_sync(cluster)
        pid = cluster.node_pid(4)
        assert 4 in holders(cluster.status())
        with under_load(cluster.bootstrap, "orders", PARTITIONS) as load:
            check_lines(decommission_watched(cluster, 4), 4)
            load.goes_on()
            wait_until(lambda: process_state(pid or 0) is None, "the end of its process")
            wait_until(lambda: broker_ids(cluster.status()) == [1, 2, 3], "a cluster of three")
            wait_until(lambda: holders(cluster.status()) == {1, 2, 3}, "its replicas on others")
            wait_in_sync(cluster)
            assert not cluster.missing()
        (told,) = cluster.events("node_retired")
        assert told["text"] == "broker 4 was decommissioned and is not started any more"
        assert not [event for event in cluster.events("node_ended") if event["nodes"] == [4]]
        # Neither a new supervisor nor a new start brings it back, and its number is not used again.
        cluster.kill()
        wait_until(cluster.supervisor_pid, "a new supervisor", timeout_s=OUT_SECONDS_MAX)
        assert cluster.node_ids == [1, 2, 3]
        wait_until(lambda: cluster.node_pid(1) and not missing(cluster), "its endpoint", timeout_s=30)
        penstock("cluster", "kill", "supervisor", "--signal", "TERM", broker=cluster)
        wait_until(lambda: cluster.supervisor_pid() is None, "a clean stop", timeout_s=30)
        cluster.options = ("--brokers", "4")
        cluster.start()
        assert broker_ids(cluster.status()) == [1, 2, 3, 5]
        assert cluster.status()["brokers"][-1]["port"] == cluster.port + 4


def missing(cluster: SupervisedCluster) -> str:
    try:
        return cluster.missing()
    except OSError as error:
        return str(error)


def test_a_broker_that_is_a_controller_too_goes_on_as_one(tmp_path: Path) -> None:
    with SupervisedCluster(tmp_path, brokers=4) as cluster:
        create_replicated(cluster.bootstrap, "orders", PARTITIONS, REPLICAS)
        wait_in_sync(cluster)
        active = wait_until(lambda: cluster.status()["controller"], "an active controller")
        before = cluster.node_pids()
        with under_load(cluster.bootstrap, "orders", PARTITIONS):
            check_lines(decommission_watched(cluster, active), active)
            others = sorted({1, 2, 3, 4} - {active})
            wait_until(lambda: broker_ids(cluster.status()) == others, "a cluster of three brokers")
        told = cluster.status()
        assert told["controller"] == active
        assert [node for node in told["nodes"] if node["id"] == active] == [
            {"id": active, "pid": before[active], "state": "running", "roles": ["controller"]}
        ]
        assert cluster.node_pids() == before, "nobody was restarted"
        assert not cluster.missing()
        assert cluster.terminate() == 0
        cluster.options = ("--brokers", "3")
        cluster.start()
        assert broker_ids(cluster.status()) == others
        assert cluster.node_ids == [1, 2, 3, 4]


def test_nodes_without_a_supervisor(tmp_path: Path) -> None:
    """One that was down meanwhile is not let in when it returns; with a new data folder it is."""
    with Cluster(tmp_path, brokers=5) as cluster:
        create_replicated(cluster.bootstrap, "orders", PARTITIONS, REPLICAS)
        wait_in_sync(cluster)
        with under_load(cluster.bootstrap, "orders", PARTITIONS):
            check_lines(decommission_watched(cluster, 5), 5)
            assert cluster.brokers[5].wait() == 0, "it ends by itself"
            cluster.brokers[4].kill()
            penstock("cluster", "decommission", "4", "--bootstrap", cluster.bootstrap)
        for node_id in (4, 5):
            node = cluster.brokers[node_id]
            node.spawn()
            assert node.wait() == 1
            assert f"penstock: broker {node_id} was decommissioned" in node.log
            assert broker_ids(cluster.status()) == [1, 2, 3]
        cluster.brokers[5].wipe()
        cluster.brokers[5].start()
        wait_until(lambda: broker_ids(cluster.status()) == [1, 2, 3, 5], "a broker with a new folder")


def test_begin_only_and_json_and_what_cannot_be_done_is_one_line(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=4) as cluster:
        create_replicated(cluster.bootstrap, "orders", PARTITIONS, REPLICAS)
        wait_in_sync(cluster)
        held = sum(4 in each["replicas"] for each in partitions_of(cluster.status()))
        at = ("--bootstrap", cluster.bootstrap)
        lines = penstock("cluster", "decommission", "4", "--no-wait", *at).lines
        assert lines[-1] == "the same command, given again, says how much is left, and ends it"
        (line,) = penstock("cluster", "decommission", "4", "--json", *at).lines
        told = json.loads(line)
        assert told.pop("replicas") <= held
        assert told == {"broker": 4, "replicas_left": 0, "unregistered": True}
        assert broker_ids(cluster.status()) == [1, 2, 3]
        assert cluster.brokers.pop(4).wait() == 0
        cluster.wait_healed(["orders"])
        before = partitions_of(cluster.status())
        assert penstock("cluster", "decommission", "3", *at).complaint == (
            "Broker 3 cannot be decommissioned: orders-0 has 3 replica(s),"
            " and only 2 other broker(s) are alive"
        )
        assert penstock("cluster", "decommission", "9", *at).complaint == "No broker 9 is registered"
        assert partitions_of(cluster.status()) == before
        assert broker_ids(cluster.status()) == [1, 2, 3]


def test_the_only_broker_stays(broker: BrokerProcess) -> None:
    refused = penstock("cluster", "decommission", "1", broker=broker).complaint
    assert refused == "Broker 1 cannot be decommissioned: no other broker is alive"
