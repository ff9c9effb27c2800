"""Topics, groups, messages and the cluster over HTTP, through a real gateway."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from confluent_kafka import Consumer

from tests.support.cluster import Cluster
from tests.support.gateway import GatewayProcess
from tests.support.ports import free_port
from tests.support.topics import create_topic, fill, fill_all
from tests.support.wait import PATIENCE

if TYPE_CHECKING:
    from tests.support.broker import BrokerProcess

ASK_S_MAX = 30.0 * PATIENCE


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def broker(cluster: Cluster) -> BrokerProcess:
    return cluster.brokers[1]


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with GatewayProcess(folder, broker.bootstrap, "--admin-url", broker.http) as process:
        yield process


def request(gateway: GatewayProcess, method: str, path: str, body: Any = None) -> httpx.Response:
    return httpx.request(method, gateway.url + path, json=body, timeout=ASK_S_MAX)


def assert_failure(answer: httpx.Response, status: int, message: str = "") -> None:
    assert answer.status_code == status, answer.text
    assert answer.json()["status"] == "failure"
    assert message in answer.json()["message"]


def test_the_life_of_a_topic(gateway: GatewayProcess) -> None:
    created = request(
        gateway, "POST", "/v1/topics", {"name": "life", "partitions": 2, "config": {"retention.ms": 60000}}
    )
    assert created.status_code == 201, created.text
    topic = created.json()
    assert topic["name"] == "life"
    assert topic["partitions"] == [
        {"partition": index, "leader": 1, "replicas": [1], "isr": [1], "start": 0, "end": 0}
        for index in (0, 1)
    ]
    assert topic["config"]["retention.ms"]["value"] == "60000"
    assert_failure(request(gateway, "POST", "/v1/topics", {"name": "life"}), 409, "exists already")
    fill(gateway.bootstrap, "life", [b"1", b"2"], partition=1)
    assert request(gateway, "GET", "/v1/topics/life").json()["partitions"][1]["end"] == 2
    listed = request(gateway, "GET", "/v1/topics").json()["topics"]
    assert [len(each["partitions"]) for each in listed if each["name"] == "life"] == [2]
    changes = {"config": {"cleanup.policy": "compact", "retention.ms": None}}
    changed = request(gateway, "PATCH", "/v1/topics/life", changes).json()["config"]
    assert changed["cleanup.policy"]["value"] == "compact"
    assert changed["retention.ms"]["value"] != "60000"
    assert request(gateway, "DELETE", "/v1/topics/life").json()["status"] == "success"
    assert_failure(request(gateway, "GET", "/v1/topics/life"), 404, "life")
    assert_failure(request(gateway, "DELETE", "/v1/topics/life"), 404)
    assert_failure(request(gateway, "PATCH", "/v1/topics/life", {"config": {"a": "b"}}), 404)


@pytest.mark.parametrize(
    "body",
    [
        {}, [], {"name": 1}, {"name": ""}, {"name": "a b"}, {"name": "__x"}, {"name": "x" * 250},
        {"name": "a", "partitions": 0}, {"name": "a", "partitions": "2"}, {"name": "a", "partitions": True},
        {"name": "a", "partitions": 10**12}, {"name": "a", "replicas": 9}, {"name": "a", "config": []},
        {"name": "a", "config": {"no.such.setting": "1"}}, {"name": "a", "config": {"retention.ms": "x"}},
        {"name": "a", "config": {"retention.ms": {}}},
    ],
)  # fmt: skip
def test_topics_that_can_not_be(gateway: GatewayProcess, body: Any) -> None:
    assert_failure(request(gateway, "POST", "/v1/topics", body), 400)


def test_settings_that_can_not_be(broker: BrokerProcess, gateway: GatewayProcess) -> None:
    create_topic(broker.bootstrap, "strict")
    for body in ({}, {"config": 1}, {"config": {"no.such.setting": "1"}}, {"config": {"retention.ms": "x"}}):
        assert_failure(request(gateway, "PATCH", "/v1/topics/strict", body), 400)


def test_messages_page_by_page(broker: BrokerProcess, gateway: GatewayProcess) -> None:
    create_topic(broker.bootstrap, "pages")
    fill_all(
        broker.bootstrap,
        "pages",
        (
            {"value": b"%d" % number, "key": b"k", "headers": [("h", b"\xff")], "timestamp": 5}
            for number in range(250)
        ),
    )

    def page(query: str) -> dict[str, Any]:
        answer = request(gateway, "GET", f"/v1/topics/pages/messages?{query}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    first = page("")
    assert len(first["messages"]) == 100
    assert (first["topic"], first["partition"], first["start"], first["end"]) == ("pages", 0, 0, 250)
    assert first["messages"][0] == {
        "topic": "pages", "partition": 0, "offset": 0, "timestamp": 5, "key": "k", "value": "0",
        "headers": [{"name": "h", "value": None, "value_base64": "/w=="}],
    }  # fmt: skip
    seen: list[int] = []
    offset = 0
    while offset < 250:
        found = page(f"offset={offset}&limit=60&partition=0")
        seen += [message["offset"] for message in found["messages"]]
        offset = found["next_offset"]
    assert seen == list(range(250))
    assert [message["offset"] for message in page("offset=end&limit=3")["messages"]] == [247, 248, 249]
    assert page("offset=250")["messages"] == []
    for query in ("offset=251", "offset=x", "limit=x", "limit=1001", "partition=-1"):
        assert_failure(request(gateway, "GET", f"/v1/topics/pages/messages?{query}"), 400)
    assert_failure(request(gateway, "GET", "/v1/topics/pages/messages?partition=3"), 404)
    assert_failure(request(gateway, "GET", "/v1/topics/nowhere/messages"), 404)
    assert_failure(request(gateway, "GET", "/v1/topics/__penstock_ids/messages"), 400)


def test_groups_and_their_lag(broker: BrokerProcess, gateway: GatewayProcess) -> None:
    create_topic(broker.bootstrap, "read")
    fill(broker.bootstrap, "read", [b"x"] * 10)
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "enable.auto.commit": False, "log_level": 0})
    consumer.subscribe(["read"])
    try:
        message = consumer.poll(ASK_S_MAX)
        assert message is not None
        consumer.commit(message, asynchronous=False)
        group = request(gateway, "GET", "/v1/groups/g").json()
        assert (group["group"], group["state"], group["lag"], len(group["members"])) == ("g", "stable", 9, 1)
        (partition,) = group["partitions"]
        assert (partition["topic"], partition["partition"]) == ("read", 0)
        assert (partition["committed"], partition["end"], partition["lag"]) == (1, 10, 9)
        listed = request(gateway, "GET", "/v1/groups").json()["groups"]
        assert [each for each in listed if each["group"] == "g"] == [group]
    finally:
        consumer.close()
    assert_failure(request(gateway, "GET", "/v1/groups/nobody"), 404)


def test_the_state_of_the_cluster(broker: BrokerProcess, gateway: GatewayProcess) -> None:
    create_topic(broker.bootstrap, "seen")
    state = request(gateway, "GET", "/v1/cluster").json()
    assert state["brokers"][0]["pid"] == broker.pid
    assert any(topic["name"] == "seen" for topic in state["topics"])


def test_what_happens_in_the_cluster(broker: BrokerProcess, gateway: GatewayProcess) -> None:
    with httpx.stream("GET", f"{gateway.url}/v1/cluster/events", timeout=ASK_S_MAX) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        create_topic(broker.bootstrap, "happens")
        for line in lines:
            if line.startswith("data: ") and "happens" in json.loads(line[6:])["text"]:
                break
    # Each event once.
    with httpx.stream("GET", f"{gateway.url}/v1/cluster/events", timeout=ASK_S_MAX) as response:
        create_topic(broker.bootstrap, "happens-later")
        events = []
        for line in response.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line[6:])
                events.append(line)
                if "happens-later" in event["text"]:
                    break
    assert len(events) == len(set(events))


def test_without_an_admin_endpoint(broker: BrokerProcess, tmp_path: Path) -> None:
    """As in front of Apache Kafka: the state as far as the protocol tells it, the rest is not available."""
    create_topic(broker.bootstrap, "plain")
    with GatewayProcess(tmp_path, broker.bootstrap) as gateway:
        state = request(gateway, "GET", "/v1/cluster").json()
        (known,) = state["brokers"]
        assert (known["id"], known["port"], known["pid"]) == (1, broker.port, None)
        (topic,) = [each for each in state["topics"] if each["name"] == "plain"]
        assert topic["partitions"][0]["leader"] == 1
        assert_failure(request(gateway, "GET", "/v1/cluster/events"), 503, "not available")
        assert_failure(request(gateway, "POST", "/v1/cluster/kill", {"target": "1"}), 503, "not available")
    dead = f"http://127.0.0.1:{free_port()}"
    with GatewayProcess(tmp_path, broker.bootstrap, "--admin-url", dead) as gateway:
        assert_failure(request(gateway, "GET", "/v1/cluster"), 503, "not available")


def test_kill(tmp_path: Path) -> None:
    with (
        Cluster(tmp_path, brokers=1) as cluster,
        GatewayProcess(tmp_path, cluster.bootstrap, "--admin-url", cluster.brokers[1].http) as gateway,
    ):
        node = cluster.brokers[1]
        create_topic(cluster.bootstrap, "t")
        for body in ({}, {"target": 1}, {"target": "everything"}, {"target": "1", "signal": "HUP"}):
            assert_failure(request(gateway, "POST", "/v1/cluster/kill", body), 400)
        for target in ("9", "supervisor", "leader:nowhere"):
            assert_failure(request(gateway, "POST", "/v1/cluster/kill", {"target": target}), 404)
        stopped = request(gateway, "POST", "/v1/cluster/kill", {"target": "leader:t", "signal": "TERM"})
        assert stopped.json()["message"] == f"sent SIGTERM to node 1, process {node.pid}"
        assert node.wait() == 0
        node.start()
        killed = request(gateway, "POST", "/v1/cluster/kill", {"target": "controller"})
        assert killed.status_code == 200, killed.text
        assert node.wait() == -signal.SIGKILL
        assert_failure(request(gateway, "POST", "/v1/cluster/kill", {"target": "1"}), 503)


def test_health_and_figures(broker: BrokerProcess, gateway: GatewayProcess) -> None:
    assert request(gateway, "GET", "/healthz").json() == {"status": "success"}
    assert request(gateway, "GET", "/readyz").json() == {"status": "success"}
    figures = request(gateway, "GET", "/metrics")
    assert figures.headers["content-type"].startswith("text/plain")
    assert "penstock_gateway_streams_stalled_total 0.0" in figures.text
    assert "process_resident_memory_bytes" in figures.text
    assert request(gateway, "GET", "/").headers["content-type"].startswith("text/html")


def test_not_ready_without_brokers(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, f"127.0.0.1:{free_port()}") as gateway:
        assert request(gateway, "GET", "/healthz").status_code == 200
        assert_failure(request(gateway, "GET", "/readyz"), 503, "no broker answers")
