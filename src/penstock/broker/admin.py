"""The admin endpoint of a node: health, metrics and the state of the cluster, over HTTP, to be read only.

`/v1/cluster` has the shape of `penstock cluster status --json`. Gateway and console ask it for what the
Kafka protocol does not tell, such as the pid of a broker.
"""

from __future__ import annotations

import os
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from penstock.broker.exposition import exposition
from penstock.broker.http import (
    HttpError,
    HttpServer,
    Request,
    Response,
    json_response,
    text_response,
)
from penstock.hosts import KnownHosts
from penstock.listening import bind, format_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.broker.broker import Broker
    from penstock.metadata.image import BrokerImage, TopicImage
    from penstock.metadata.load import BrokerLoad, PartitionLoad

HOME: Final = """\
This is the admin endpoint of a Penstock node. Kafka clients connect to another port.

/healthz      the process is alive
/readyz       it serves clients
/metrics      counters and gauges, for Prometheus
/v1/cluster   brokers, topics and partitions, as JSON
/v1/cluster/log   what has happened to them
"""
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class AdminServer:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        names = (config.http_host, config.host, config.advertised_host, socket.gethostname())
        hosts = KnownHosts.of(*names, *config.http_names)
        self._server = HttpServer(self.answer, hosts=hosts)
        self._listening: socket.socket | None = None

    def bind(self) -> None:
        """Take the port, so that a taken one is told before the node joins anything: OSError."""
        config = self._broker.config
        assert config.http_port is not None
        self._listening = bind(config.http_address, config.http_port)

    async def start(self) -> str:
        """Serve; returns the address."""
        assert self._listening is not None
        await self._server.listen(self._listening)
        config = self._broker.config
        port = self._listening.getsockname()[1]
        return f"http://{format_address(config.http_address, port)}"

    async def stop(self) -> None:
        await self._server.close()
        if self._listening is not None:
            self._listening.close()

    def answer(self, request: Request) -> Response:
        match request.path:
            case "/":
                return text_response(HOME)
            case "/healthz":
                return json_response({"status": "success"})
            case "/readyz":
                return self._readiness()
            case "/metrics":
                return text_response(exposition(self._broker), METRICS_TYPE)
            case "/v1/cluster":
                return json_response(cluster_status(self._broker))
            case "/v1/cluster/log":
                return json_response({"events": cluster_log(self._broker)})
            case _:
                raise HttpError(HTTPStatus.NOT_FOUND, "there is nothing here; GET / lists what is")

    def _readiness(self) -> Response:
        """Not ready while the cluster does without this broker, or while a partition refuses writes: whoever
        looks should hear of a failing disk."""
        broker = self._broker
        lifecycle = broker.lifecycle
        is_broker = broker.config.is_broker and not lifecycle.is_decommissioned
        if is_broker and not broker.config.is_alone and lifecycle.is_fenced:
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE, "fenced: the controller does not take it for alive"
            )
        broken = [f"{each.topic}-{each.index}" for each in self._broker.partitions if each.log.error]
        if not broken:
            return json_response({"status": "success"})
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"read-only after a disk error: {broken[0]}{more}")


def cluster_status(broker: Broker) -> dict[str, Any]:
    image = broker.controller.image
    loads = broker.controller.loads
    return {
        "cluster_id": broker.cluster_id,
        "controller": broker.controller.leader_id,
        "brokers": [
            broker_status(each, broker) | load_status(loads.get(each.id))
            for _, each in sorted(image.brokers.items())
        ],
        "topics": [topic_status(image.topics[name], broker, loads) for name in sorted(image.topics)],
    }


def load_status(load: BrokerLoad | None) -> dict[str, Any]:
    """Only the active controller knows how busy brokers are; others say nothing."""
    if load is None:
        return {}
    return {
        "load": {
            "busy": round(load.busy, 4),
            "cpu": round(load.cpu, 4),
            "queue_ms": round(load.queue_ms, 4),
            "disk_free": load.disk_free,
            "disk_size": load.disk_size,
        }
    }


def cluster_log(broker: Broker) -> list[dict[str, Any]]:
    return [
        {"offset": each.offset, "timestamp_ms": each.timestamp_ms, **each.event.as_json()}
        for each in broker.controller.publisher.events
    ]


def broker_status(image: BrokerImage, broker: Broker) -> dict[str, Any]:
    itself = image.id == broker.config.node_id
    is_voter = image.id in broker.controller.driver.core.voters.seats
    return {
        "id": image.id,
        "host": image.host,
        "port": image.port,
        "pid": os.getpid() if itself else None,
        "state": "fenced" if image.fenced else "running",
        "roles": ["broker", "controller"] if is_voter else ["broker"],
        "rack": image.rack,
    }


def rounded(load: PartitionLoad) -> dict[str, float]:
    return {name: round(number, 4) for name, number in load._asdict().items()}


def topic_status(topic: TopicImage, broker: Broker, loads: Mapping[int, BrokerLoad]) -> dict[str, Any]:
    partitions = []
    for index, image in sorted(topic.partitions.items()):
        local = broker.partitions.get(topic.name, index)
        load = loads[image.leader].partitions.get((topic.topic_id, index)) if image.leader in loads else None
        partitions.append(
            {
                "partition": index,
                "leader": image.leader if image.leader >= 0 else None,
                "leader_epoch": image.leader_epoch,
                "replicas": list(image.replicas),
                "isr": list(image.isr),
                "high_watermark": local.high_watermark if local is not None else None,
            }
            | ({"load": rounded(load)} if load is not None else {})
        )
    return {"name": topic.name, "partitions": partitions}
