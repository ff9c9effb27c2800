"""Apache Kafka: three combined KRaft nodes from the published jars, with their defaults."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

from bench.cluster import BROKERS, Cluster, Node
from bench.peers import kafka
from bench.process import free_port, listening, run_load
from bench.topics import replicated_topic
from penstock.wire.exchange import Exchange

# Three virtual machines compile with the CPU that one has elsewhere.
WARM_UP_SECONDS: Final = 3 * kafka.WARM_UP_SECONDS
ANSWER_SECONDS_MAX: Final = 5.0
SPREAD: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
DESCRIBE_QUORUM: Final = Exchange(55, 0)
LENGTH: Final = struct.Struct(">i")


def start(directory: Path) -> Cluster:
    controller_ports = {node_id: free_port() for node_id in BROKERS}
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in controller_ports.items())
    cluster_id, nodes = kafka.new_cluster_id(), {}
    for node_id, controller_port in controller_ports.items():
        folder = directory / f"node-{node_id}"
        folder.mkdir()
        properties = folder / "server.properties"
        node = Node(
            id=node_id,
            port=free_port(),
            directory=folder,
            command=kafka.command(properties),
            is_ready=lambda node: listening(node.port),
        )
        settings = {"node_id": node_id, "port": node.port, "data": node.data}
        properties.write_text(
            kafka.PROPERTIES.format(**settings, voters=voters, controller_port=controller_port)
        )
        kafka.format_folder(properties, cluster_id)
        nodes[node_id] = node
    cluster = Cluster(
        name="Kafka cluster",
        version=kafka.VERSION,
        directory=directory,
        nodes=nodes,
        ask_controller=lambda node: maybe_controller(node.port),
    )
    cluster.start()
    try:
        warm_up(cluster)
    except BaseException:
        cluster.stop()
        raise
    return cluster


def warm_up(cluster: Cluster) -> None:
    """Let every JVM compile what it needs to lead and to follow."""
    with replicated_topic("warm-up", cluster, SPREAD) as topic:
        where = {"bootstrap": cluster.bootstrap, "topic": topic, "partitions": len(SPREAD)}
        for size in (1_000, 100):
            run_load("kafka_produce", **where, size=size, count=500_000, seconds=WARM_UP_SECONDS / 2)


def maybe_controller(port: int) -> int | None:
    """The leader of the metadata quorum. What Kafka's metadata names as controller is just any broker."""
    metadata_log = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX) as connection:
            connection.sendall(DESCRIBE_QUORUM.request(1, "bench", {"topics": [metadata_log]}))
            stream = connection.makefile("rb")
            (size,) = LENGTH.unpack(stream.read(LENGTH.size))
            answer = DESCRIBE_QUORUM.response(stream.read(size))
    except (OSError, struct.error):
        return None
    if answer.error_code:
        return None
    leader = int(answer.topics[0].partitions[0].leader_id)
    return leader if leader >= 0 else None
