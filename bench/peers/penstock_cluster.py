"""Penstock: three `penstock broker` processes, each of them a controller too."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Final

from bench.cluster import BROKERS, Cluster, Node
from bench.peers.penstock import version
from bench.process import free_port

HTTP_SECONDS_MAX: Final = 2.0
NODE_FILE: Final = """id = {node_id}
roles = ["broker", "controller"]
listeners = "127.0.0.1:{port}"
controllers = [{voters}]
data = "{data}"
flush = "{flush}"
http_port = {http_port}
"""


def start(directory: Path, *, flush: str) -> Cluster:
    ports = {node_id: free_port() for node_id in BROKERS}
    http_ports = {node_id: free_port() for node_id in BROKERS}
    voters = ", ".join(f'"{node_id}@127.0.0.1:{port}"' for node_id, port in ports.items())
    nodes = {}
    for node_id, port in ports.items():
        folder = directory / f"node-{node_id}"
        folder.mkdir()
        file = folder / "node.toml"
        node = Node(
            id=node_id,
            port=port,
            directory=folder,
            command=[sys.executable, "-m", "penstock", "broker", "--config", file],
            is_ready=lambda node: b"ready kafka=" in node.log.read_bytes(),
        )
        settings = {"node_id": node_id, "port": port, "http_port": http_ports[node_id], "data": node.data}
        file.write_text(NODE_FILE.format(**settings, voters=voters, flush=flush))
        nodes[node_id] = node
    cluster = Cluster(
        name="Penstock cluster",
        version=version(),
        directory=directory,
        nodes=nodes,
        ask_controller=lambda node: maybe_controller(http_ports[node.id]),
    )
    cluster.start()
    return cluster


def maybe_controller(http_port: int) -> int | None:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{http_port}/v1/cluster", timeout=HTTP_SECONDS_MAX
        ) as answer:
            controller: int | None = json.loads(answer.read())["controller"]
    except OSError:
        return None
    return controller
