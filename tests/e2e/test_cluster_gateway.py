"""The gateway of a cluster: one of the supervisor's processes, killed and started again like the others."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker import node_status
from tests.support.commands import penstock
from tests.support.supervised import SupervisedCluster
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

BACK_S_MAX = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    folder = tmp_path_factory.mktemp("gateway")
    with SupervisedCluster(folder, brokers=2, with_gateway=True) as started:
        yield started


def gateway_pid(cluster: SupervisedCluster) -> int:
    def serving() -> int | None:
        status = node_status.read(cluster.folder.service("gateway").data)
        return status.pid if status is not None else None

    found = wait_until(serving, "a gateway that serves", timeout_s=BACK_S_MAX)
    assert isinstance(found, int)
    return found


def get(cluster: SupervisedCluster, path: str) -> Any:
    with urllib.request.urlopen(cluster.http + path, timeout=10) as response:
        return json.loads(response.read())


def try_get(cluster: SupervisedCluster, path: str) -> Any:
    try:
        return get(cluster, path)
    except (urllib.error.URLError, OSError):
        return None


def services(cluster: SupervisedCluster) -> dict[str, Any]:
    return {node["id"]: node for node in get(cluster, "/v1/cluster")["nodes"]}


def test_it_tells_of_the_cluster_and_of_itself(cluster: SupervisedCluster) -> None:
    assert cluster.wait_ready().endswith(f"http={cluster.http}")
    wait_until(lambda: services(cluster)["gateway"]["state"] == "running", "a gateway that serves")
    told = services(cluster)
    assert abs(told["gateway"].pop("heartbeat_ms") / 1000 - time.time()) < 60
    assert told["gateway"] == {
        "id": "gateway", "pid": gateway_pid(cluster), "state": "running", "roles": ["gateway"],
    }  # fmt: skip
    assert told["supervisor"]["state"] == "running"
    log = penstock("cluster", "log", "--http", cluster.http)
    assert log.code == 0
    assert "the gateway serves" in log.out


def test_a_killed_gateway_is_back(cluster: SupervisedCluster) -> None:
    before = gateway_pid(cluster)
    killed = penstock("cluster", "kill", "gateway", "--http", cluster.http)
    assert killed.code == 0, killed.complaint
    wait_until(lambda: gateway_pid(cluster) != before, "another gateway", timeout_s=BACK_S_MAX)
    assert get(cluster, "/topics")["status"] == "success"


def test_it_outlives_its_supervisor_and_is_adopted(cluster: SupervisedCluster) -> None:
    before = gateway_pid(cluster)
    supervisor = services(cluster)["supervisor"]["pid"]
    os.kill(supervisor, signal.SIGKILL)

    def adopted() -> bool:
        told = try_get(cluster, "/v1/cluster")
        return told is not None and any(
            node["id"] == "supervisor" and node["pid"] != supervisor for node in told["nodes"]
        )

    wait_until(adopted, "a successor that the gateway finds", timeout_s=BACK_S_MAX)
    assert services(cluster)["gateway"]["pid"] == before
    assert get(cluster, "/topics")["status"] == "success"
