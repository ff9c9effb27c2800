"""Topics, groups, messages and the cluster over HTTP, through a real gateway."""

from __future__ import annotations

import json
import signal
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
    from pathlib import Path

    from tests.support.broker import BrokerProcess

ASK_S_MAX = 30.0 * PATIENCE


def request(gateway: GatewayProcess, method: str, path: str, body: Any = None) -> httpx.Response:
    return httpx.request(method, gateway.url + path, json=body, timeout=ASK_S_MAX)


def assert_failure(answer: httpx.Response, status: int, message: str = "") -> None:
    assert answer.status_code == status, answer.text
    assert answer.json()["status"] == "failure"
    assert message in answer.json()["message"]


def test_the_life_of_a_topic(shared_gateway: GatewayProcess, topic: str) -> None:
    created = request(
        shared_gateway,
        "POST",
        "/v1/topics",
        {"name": topic, "partitions": 2, "config": {"retention.ms": 60000}},
    )
    assert created.status_code == 201, created.text
    told = created.json()
    assert told["name"] == topic
    assert told["partitions"] == [
        {"partition": index, "leader": 1, "replicas": [1], "isr": [1], "start": 0, "end": 0}
        for index in (0, 1)
    ]
    assert told["config"]["retention.ms"]["value"] == "60000"
    assert_failure(request(shared_gateway, "POST", "/v1/topics", {"name": topic}), 409, "exists already")
    fill(shared_gateway.bootstrap, topic, [b"1", b"2"], partition=1)
    assert request(shared_gateway, "GET", f"/v1/topics/{topic}").json()["partitions"][1]["end"] == 2
    listed = request(shared_gateway, "GET", "/v1/topics").json()["topics"]
    assert [len(each["partitions"]) for each in listed if each["name"] == topic] == [2]
    changes = {"config": {"cleanup.policy": "compact", "retention.ms": None}}
    changed = request(shared_gateway, "PATCH", f"/v1/topics/{topic}", changes).json()["config"]
    assert changed["cleanup.policy"]["value"] == "compact"
    assert changed["retention.ms"]["value"] != "60000"
    assert request(shared_gateway, "DELETE", f"/v1/topics/{topic}").json()["status"] == "success"
    assert_failure(request(shared_gateway, "GET", f"/v1/topics/{topic}"), 404, topic)
    assert_failure(request(shared_gateway, "DELETE", f"/v1/topics/{topic}"), 404)
    assert_failure(request(shared_gateway, "PATCH", f"/v1/topics/{topic}", {"config": {"a": "b"}}), 404)


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
def test_topics_that_can_not_be(shared_gateway: GatewayProcess, body: Any) -> None:
    assert_failure(request(shared_gateway, "POST", "/v1/topics", body), 400)


def test_settings_that_can_not_be(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    for body in ({}, {"config": 1}, {"config": {"no.such.setting": "1"}}, {"config": {"retention.ms": "x"}}):
        assert_failure(request(shared_gateway, "PATCH", f"/v1/topics/{topic}", body), 400)


def test_messages_page_by_page(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill_all(
        shared_broker.bootstrap,
        topic,
        (
            {"value": b"%d" % number, "key": b"k", "headers": [("h", b"\xff")], "timestamp": 5}
            for number in range(250)
        ),
    )

    def page(query: str) -> dict[str, Any]:
        answer = request(shared_gateway, "GET", f"/v1/topics/{topic}/messages?{query}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    first = page("")
    assert len(first["messages"]) == 100
    assert (first["topic"], first["partition"], first["start"], first["end"]) == (topic, 0, 0, 250)
    assert first["messages"][0] == {
        "topic": topic, "partition": 0, "offset": 0, "timestamp": 5, "key": "k", "value": "0",
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
        assert_failure(request(shared_gateway, "GET", f"/v1/topics/{topic}/messages?{query}"), 400)
    assert_failure(request(shared_gateway, "GET", f"/v1/topics/{topic}/messages?partition=3"), 404)
    assert_failure(request(shared_gateway, "GET", "/v1/topics/nowhere/messages"), 404)
    assert_failure(request(shared_gateway, "GET", "/v1/topics/__penstock_ids/messages"), 400)


def test_groups_and_their_lag(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill(shared_broker.bootstrap, topic, [b"x"] * 10)
    config = {
        "bootstrap.servers": shared_broker.bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({**config, "enable.auto.commit": False, "log_level": 0})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(ASK_S_MAX)
        assert message is not None
        consumer.commit(message, asynchronous=False)
        group = request(shared_gateway, "GET", f"/v1/groups/{topic}").json()
        assert (group["group"], group["state"], group["lag"], len(group["members"])) == (
            topic,
            "stable",
            9,
            1,
        )
        (partition,) = group["partitions"]
        assert (partition["topic"], partition["partition"]) == (topic, 0)
        assert (partition["committed"], partition["end"], partition["lag"]) == (1, 10, 9)
        listed = request(shared_gateway, "GET", "/v1/groups").json()["groups"]
        assert [each for each in listed if each["group"] == topic] == [group]
    finally:
        consumer.close()
    assert_failure(request(shared_gateway, "GET", "/v1/groups/nobody"), 404)


def test_the_state_of_the_cluster(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    state = request(shared_gateway, "GET", "/v1/cluster").json()
    assert state["brokers"][0]["pid"] == shared_broker.pid
    assert any(each["name"] == topic for each in state["topics"])


def test_what_happens_in_the_cluster(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    with httpx.stream("GET", f"{shared_gateway.url}/v1/cluster/events", timeout=ASK_S_MAX) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        create_topic(shared_broker.bootstrap, topic)
        for line in lines:
            if line.startswith("data: ") and topic in json.loads(line[6:])["text"]:
                break
    # Each event once.
    with httpx.stream("GET", f"{shared_gateway.url}/v1/cluster/events", timeout=ASK_S_MAX) as response:
        create_topic(shared_broker.bootstrap, f"{topic}-later")
        events = []
        for line in response.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line[6:])
                events.append(line)
                if f"{topic}-later" in event["text"]:
                    break
    assert len(events) == len(set(events))


def test_without_an_admin_endpoint(shared_broker: BrokerProcess, tmp_path: Path, topic: str) -> None:
    """As in front of Apache Kafka: the state as far as the protocol tells it, the rest is not available."""
    create_topic(shared_broker.bootstrap, topic)
    with GatewayProcess(tmp_path, shared_broker.bootstrap) as gateway:
        state = request(gateway, "GET", "/v1/cluster").json()
        (known,) = state["brokers"]
        assert (known["id"], known["port"], known["pid"]) == (1, shared_broker.port, None)
        (described,) = [each for each in state["topics"] if each["name"] == topic]
        assert described["partitions"][0]["leader"] == 1
        assert_failure(request(gateway, "GET", "/v1/cluster/events"), 503, "not available")
        assert_failure(request(gateway, "POST", "/v1/cluster/kill", {"target": "1"}), 503, "not available")
    dead = f"http://127.0.0.1:{free_port()}"
    with GatewayProcess(tmp_path, shared_broker.bootstrap, "--admin-url", dead) as gateway:
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


def test_health_and_figures(shared_broker: BrokerProcess, shared_gateway: GatewayProcess) -> None:
    assert request(shared_gateway, "GET", "/healthz").json() == {"status": "success"}
    assert request(shared_gateway, "GET", "/readyz").json() == {"status": "success"}
    figures = request(shared_gateway, "GET", "/metrics")
    assert figures.headers["content-type"].startswith("text/plain")
    assert "penstock_gateway_streams_stalled_total " in figures.text
    assert "process_resident_memory_bytes" in figures.text
    assert request(shared_gateway, "GET", "/").headers["content-type"].startswith("text/html")


def test_not_ready_without_brokers(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, f"127.0.0.1:{free_port()}") as gateway:
        assert request(gateway, "GET", "/healthz").status_code == 200
        assert_failure(request(gateway, "GET", "/readyz"), 503, "no broker answers")
