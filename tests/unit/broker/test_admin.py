"""The admin endpoint over a broker made of plain values."""

from __future__ import annotations

import json
import os
from collections import Counter
from http import HTTPStatus
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

import pytest

from penstock.broker.admin import AdminServer
from penstock.broker.exposition import Family, render
from penstock.broker.http import HttpError, Request, Response
from penstock.broker.metrics import Metrics
from penstock.config import NodeConfig
from penstock.controller.publisher import Published
from penstock.metadata.events import ClusterEvent, EventKind
from penstock.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from penstock.metadata.load import BrokerLoad, PartitionLoad
from penstock.quorum.voters import VoterSet
from penstock.storage import StorageError
from penstock.storage.interface import DamagedRange
from penstock.wire.broker_heartbeat import LoadData

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING = UUID(int=0)


def make_broker(
    error: Exception | None = None,
    config: NodeConfig | None = None,
    *,
    is_fenced: bool = False,
    loads: Mapping[int, BrokerLoad] = MappingProxyType({}),
) -> Any:
    damage = [DamagedRange("t-0/0.log", 300, 88, 7, 8, "CRC mismatch")]
    log = SimpleNamespace(
        error=error, size_bytes=100, log_start_offset=2, log_end_offset=17, damage=lambda: damage
    )
    partition = SimpleNamespace(topic="t", index=0, log=log, high_watermark=16)

    class Partitions(list[Any]):
        failed: ClassVar = {("t", 5): StorageError("damaged")}

        def get(self, topic: str, index: int) -> Any:
            return partition if (topic, index) == ("t", 0) else None

    image = MetadataImage(
        brokers={
            1: BrokerImage(1, "127.0.0.1", 9092, None, 0, NOTHING, NOTHING, fenced=False),
            2: BrokerImage(2, "elsewhere", 9092, "north", 0, NOTHING, NOTHING, fenced=True),
        },
        topics={
            "t": TopicImage(
                "t",
                NOTHING,
                {0: PartitionImage(1, 3, (1, 2), (1,), 5), 1: PartitionImage(2, 0, (2,), (2,), 0)},
            )
        },
    )
    return SimpleNamespace(
        cluster_id="abc",
        config=NodeConfig(http_port=0) if config is None else config,
        controller=SimpleNamespace(
            image=image,
            loads=loads,
            leader_id=1,
            driver=SimpleNamespace(core=SimpleNamespace(voters=VoterSet.of_ids([1]))),
            publisher=SimpleNamespace(
                events=[Published(4, 1_000, ClusterEvent(EventKind.TOPIC_CREATED, "topic t"))]
            ),
        ),
        lifecycle=SimpleNamespace(is_fenced=is_fenced, is_decommissioned=False),
        partitions=Partitions([partition]),
        scrubber=SimpleNamespace(current=SimpleNamespace(bytes_done=30, bytes_total=120)),
        metrics=Metrics(
            scrubbed_bytes=700, bytes_in=10, bytes_out=20, requests=Counter({0: 3, 99: 1}), flushes=4
        ),
        registry=[SimpleNamespace(key=0, function=SimpleNamespace(__name__="produce"))],
        memory=SimpleNamespace(used_bytes=7, limit_bytes=1_000),
        connection_count=5,
        load_meter=SimpleNamespace(report=lambda: LoadData(0.5, 1.25, 3.0, 10, 20, ())),
        started_at_ms=1_500,
    )


def ask(path: str, broker: Any = None) -> Response:
    return AdminServer(broker or make_broker()).answer(Request("GET", path, True))


def test_the_state_of_the_cluster() -> None:
    assert json.loads(ask("/v1/cluster").body) == {
        "cluster_id": "abc",
        "controller": 1,
        "brokers": [
            {
                "id": 1,
                "host": "127.0.0.1",
                "port": 9092,
                "pid": os.getpid(),
                "state": "running",
                "roles": ["broker", "controller"],
                "rack": None,
            },
            {
                "id": 2,
                "host": "elsewhere",
                "port": 9092,
                "pid": None,
                "state": "fenced",
                "roles": ["broker"],
                "rack": "north",
            },
        ],
        "topics": [
            {
                "name": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "leader": 1,
                        "leader_epoch": 3,
                        "replicas": [1, 2],
                        "isr": [1],
                        "high_watermark": 16,
                    },
                    {
                        "partition": 1,
                        "leader": 2,
                        "leader_epoch": 0,
                        "replicas": [2],
                        "isr": [2],
                        "high_watermark": None,
                    },
                ],
            }
        ],
    }


def test_how_busy_brokers_and_partitions_are_where_it_is_known() -> None:
    partitions = {(NOTHING, 0): PartitionLoad(1000.0, 2000.0, 0.25)}
    broker = make_broker(loads={1: BrokerLoad(0.5, 1.25, 3.0, 10, 20, partitions)})
    status = json.loads(ask("/v1/cluster", broker).body)
    known, unknown = status["brokers"]
    assert known["load"] == {"busy": 0.5, "cpu": 1.25, "queue_ms": 3.0, "disk_free": 10, "disk_size": 20}
    assert "load" not in unknown
    known, unknown = status["topics"][0]["partitions"]
    assert known["load"] == {"bytes_in": 1000.0, "bytes_out": 2000.0, "share": 0.25}
    assert "load" not in unknown


def test_a_partition_without_a_leader() -> None:
    broker = make_broker()
    topic = broker.controller.image.topics["t"]
    topic.partitions[1] = PartitionImage(-1, 4, (2,), (2,), 1)
    partitions = json.loads(ask("/v1/cluster", broker).body)["topics"][0]["partitions"]
    assert [partition["leader"] for partition in partitions] == [1, None]


def test_metrics() -> None:
    answer = ask("/metrics")
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    for line in (
        'penstock_requests_total{api="produce"} 3',
        'penstock_requests_total{api="99"} 1',
        "penstock_connections 5",
        "penstock_received_bytes_total 10",
        "penstock_sent_bytes_total 20",
        "penstock_busy 0.5",
        "penstock_queue_seconds 0.003",
        "penstock_disk_free_bytes 10",
        "penstock_held_bytes 7",
        "penstock_flushes_total 4",
        "penstock_partitions 1",
        "penstock_partitions_read_only 0",
        "penstock_partitions_out_of_service 1",
        "penstock_log_damaged_ranges 1",
        "penstock_scrubbed_bytes_total 700",
        "penstock_scrub_damage_found_total 0",
        "penstock_scrub_disagreements_total 0",
        "penstock_scrub_progress_ratio 0.25",
        'penstock_log_damaged_bytes{topic="t",partition="0",offset="7",file="t-0/0.log"} 88',
        "penstock_log_records 15",
        "penstock_log_end_offset_sum 17",
        "process_start_time_seconds 1.5",
        "# TYPE penstock_flushes_total counter",
    ):
        assert line in lines


def test_labels_are_escaped() -> None:
    family = Family("m", "gauge", "help", ((('a"b\\c\nd', "e"), 1),), ("name", "other"))
    assert render([family]) == '# HELP m help\n# TYPE m gauge\nm{name="a\\"b\\\\c\\nd",other="e"} 1\n'


def test_health_and_the_first_page() -> None:
    for path in ("/healthz", "/readyz"):
        assert json.loads(ask(path).body) == {"status": "success"}
    assert b"/metrics" in ask("/").body


def test_not_ready_after_a_disk_error() -> None:
    with pytest.raises(HttpError, match="read-only after a disk error: t-0") as caught:
        ask("/readyz", make_broker(OSError("No space left on device")))
    assert caught.value.status is HTTPStatus.SERVICE_UNAVAILABLE


def test_not_ready_while_the_cluster_does_without_it() -> None:
    alone = make_broker(is_fenced=True)
    assert ask("/readyz", alone).status is HTTPStatus.OK, "nobody could fence it"
    one_of_two = NodeConfig(controllers={1: ("a", 1), 2: ("b", 1)})
    with pytest.raises(HttpError, match="fenced") as caught:
        ask("/readyz", make_broker(config=one_of_two, is_fenced=True))
    assert caught.value.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert ask("/readyz", make_broker(config=one_of_two)).status is HTTPStatus.OK
    only_controller = NodeConfig(controllers={1: ("a", 1)}, roles=frozenset({"controller"}))
    assert ask("/readyz", make_broker(config=only_controller, is_fenced=True)).status is HTTPStatus.OK


def test_the_log_of_the_cluster() -> None:
    assert json.loads(ask("/v1/cluster/log").body) == {
        "events": [
            {"offset": 4, "timestamp_ms": 1_000, "kind": "topic_created", "text": "topic t", "nodes": []}
        ]
    }


def test_what_is_not_there() -> None:
    with pytest.raises(HttpError) as caught:
        ask("/v1/nothing")
    assert caught.value.status is HTTPStatus.NOT_FOUND
