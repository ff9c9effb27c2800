"""`penstock up --flights` where the service cannot start: the cluster is there all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.broker import BrokerProcess
from tests.support.managed_process import SOURCE
from tests.support.supervised import SupervisedCluster
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def without_spark(tmp_path: Path) -> Path:
    """A folder of modules with which PySpark cannot be imported."""
    folder = tmp_path / "modules"
    (folder / "pyspark").mkdir(parents=True)
    (folder / "pyspark" / "__init__.py").write_text('raise ImportError("this machine has no PySpark")\n')
    return folder


def test_a_cluster_whose_service_does_not_start(tmp_path: Path, without_spark: Path) -> None:
    with SupervisedCluster(
        tmp_path, "--flights", brokers=3, module="tests.support.fake_penstock_up", modules=without_spark
    ) as cluster:
        (ended, *_) = wait_until(lambda: cluster.events("flights_ended"), "the end of the service")
        assert "penstock[spark]" in ended["cause"]
        assert cluster.missing() == ""
        assert flights_of(cluster)["roles"] == ["flights"]
        assert flights_of(cluster)["state"] in ("down", "starting")
        wait_until(lambda: len(cluster.events("flights_started")) > 1, "another attempt")
        assert "flights" in (cluster.data / "supervisor.json").read_text()
    assert "did not start" not in cluster.log


def flights_of(cluster: SupervisedCluster) -> dict[str, Any]:
    (found,) = (node for node in cluster.status()["nodes"] if node["id"] == "flights")
    return dict(found)


def test_a_single_node_whose_service_does_not_start(tmp_path: Path, without_spark: Path) -> None:
    environment = {"PYTHONPATH": f"{without_spark}:{SOURCE}"}
    with BrokerProcess(tmp_path, "--flights", "--storage", "memory", environment=environment) as node:
        wait_until(lambda: "penstock[spark]" in node.log, "why the service did not start")
        wait_until(lambda: "the Flights service ended with 1" in node.log, "that it is tried again")
        assert node.terminate() == 0


def test_without_http_a_single_node_runs_no_service(tmp_path: Path) -> None:
    node = BrokerProcess(tmp_path, "--flights", "--no-http")
    node.spawn()
    assert node.wait() == 2
    assert "--flights" in node.log
