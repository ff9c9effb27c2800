"""The heat map while brokers die, and what the console says of the cluster, on a supervised cluster."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from confluent_kafka.admin import NewTopic

from penstock.traffic.topics import HEATMAP
from tests.support.supervised import SupervisedCluster
from tests.support.topics import REQUEST_S_MAX, admin
from tests.support.traffic import WINDOW_MS, follow_heat, now_ms, viewer_cookies, write_heat
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

BACK_S_MAX = 40.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    with SupervisedCluster(tmp_path_factory.mktemp("traffic"), brokers=3, with_gateway=True) as started:
        client = admin(started.bootstrap)
        (created,) = client.create_topics([NewTopic(HEATMAP, 1, 3)]).values()
        created.result(REQUEST_S_MAX)
        yield started


def ask(cluster: SupervisedCluster, method: str, path: str, body: Any = None) -> httpx.Response:
    return httpx.request(
        method, cluster.http + path, json=body, timeout=30 * PATIENCE, trust_env=False
    )  # fmt: skip


def kill(cluster: SupervisedCluster, target: str, signal: str) -> None:
    answer = ask(cluster, "POST", "/v1/cluster/kill", {"target": target, "signal": signal})
    assert answer.status_code == 200, answer.text


def states(cluster: SupervisedCluster) -> dict[int, str]:
    told = ask(cluster, "GET", "/v1/cluster").json()
    return {broker["id"]: broker["state"] for broker in told["brokers"]}


def events(cluster: SupervisedCluster, kind: str, after_ms: int) -> list[dict[str, Any]]:
    told = ask(cluster, "GET", "/v1/cluster/log").json()["events"]
    return [each for each in told if each["kind"] == kind and each["timestamp_ms"] >= after_ms]


def test_the_map_goes_on_while_its_leader_is_killed(cluster: SupervisedCluster) -> None:
    window, stop, written = now_ms() // WINDOW_MS, threading.Event(), 0

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            written += 1
            write_heat(cluster.bootstrap, window, {(0, 0): written, (written % 48, 1): written}, written)

    writer = threading.Thread(target=write)
    try:
        with follow_heat(cluster.http, **viewer_cookies(cluster.http)) as heat:
            writer.start()
            heat.until(5)
            killed_ms = now_ms()
            kill(cluster, f"leader:{HEATMAP}", "KILL")
            shown: list[int] = [0]
            goal = written + 10
            while heat.sent < goal:
                heat.take()
                shown.append(heat.counts[window * WINDOW_MS, 0, 0])
            assert shown == sorted(shown)
            # Each batch whole: the figure of this cell is that of the totals.
            assert heat.counts[window * WINDOW_MS, 0, 0] == heat.sent
            assert heat.failure is None
    finally:
        stop.set()
        writer.join()
    wait_until(lambda: events(cluster, "leader_elected", killed_ms), "the election", timeout_s=BACK_S_MAX)
    wait_until(lambda: events(cluster, "node_started", killed_ms), "the restart", timeout_s=BACK_S_MAX)
    assert events(cluster, "isr_shrunk", killed_ms)


def test_every_node_can_be_paused_and_resumed(cluster: SupervisedCluster) -> None:
    wait_until(lambda: set(states(cluster).values()) == {"running"}, "all brokers", timeout_s=BACK_S_MAX)
    for node in states(cluster):
        kill(cluster, str(node), "STOP")
        # A signal is only on its way when the kill is answered.
        wait_until(lambda: states(cluster)[node] == "paused", f"node {node} paused", timeout_s=BACK_S_MAX)  # noqa: B023
        kill(cluster, str(node), "CONT")
        wait_until(lambda: states(cluster)[node] == "running", f"node {node}", timeout_s=BACK_S_MAX)  # noqa: B023
