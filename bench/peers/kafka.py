"""Apache Kafka: one combined KRaft node from the published jars, with its defaults."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

from bench.maven import jars
from bench.peers.base import Peer
from bench.process import UnavailableError, free_port, listening, run_load, spawn, wait_until

VERSION: Final = "4.3.0"
WARM_UP_SECONDS: Final = 5.0
ARTIFACT: Final = f"org.apache.kafka:kafka_2.13:{VERSION}"
# What Kafka's own start script gives the virtual machine.
JVM_OPTIONS: Final = [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
PROPERTIES: Final = """process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
"""
# The values of Kafka's own sample server.properties where they are not the built-in defaults.
ONE_BROKER: Final = """offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def launch(directory: Path) -> Peer:
    """Format the folder, start the node and do not wait for it."""
    port, controller_port = free_port(), free_port()
    properties = directory / "server.properties"
    properties.write_text(
        PROPERTIES.format(
            node_id=1,
            voters=f"1@127.0.0.1:{controller_port}",
            port=port,
            controller_port=controller_port,
            data=directory / "data",
        )
        + ONE_BROKER
    )
    format_folder(properties, new_cluster_id())
    process = spawn(command(properties), directory / "kafka.log")
    return Peer(name="Kafka", version=VERSION, port=port, process=process, directory=directory)


def new_cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def command(properties: Path) -> list[object]:
    return [_java(), *JVM_OPTIONS, "-cp", _classpath(), "kafka.Kafka", properties]


def format_folder(properties: Path, cluster_id: str) -> None:
    tool: list[object] = [_java(), "-cp", _classpath(), "kafka.tools.StorageTool"]
    argv = [*tool, "format", "-t", cluster_id, "-c", properties]
    done = subprocess.run([str(part) for part in argv], capture_output=True, check=False)
    if done.returncode:
        raise UnavailableError(f"kafka storage format: {done.stderr.decode(errors='replace').strip()[-200:]}")


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise UnavailableError("no java")
    return java


def _classpath() -> str:
    return f"{jars(f'kafka-{VERSION}', [ARTIFACT])}{os.sep}*"


def start(directory: Path) -> Peer:
    peer = launch(directory)
    wait_until(lambda: listening(peer.port), "kafka", peer.process)
    warm_up(peer)
    return peer


def warm_up(peer: Peer) -> None:
    """Let the JVM compile what it needs for produce and consume, and create its internal topics."""
    where = {"bootstrap": peer.bootstrap, "topic": "warm-up"}
    for size in (1_000, 100):
        load = run_load("kafka_produce", **where, size=size, count=500_000, seconds=WARM_UP_SECONDS / 2)
    run_load("kafka_consume", **where, count=load["messages"])
