"""Clients that hold every connection they can get: other nodes get in all the same."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from tests.support.cluster import Cluster, NodeProcess
from tests.support.exact_producer import create_topic_in_sync
from tests.support.raw import METADATA, encode_request
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

CONNECTIONS_MAX = 60


def test_idle_clients_do_not_shut_out_replication(tmp_path: Path) -> None:
    settings = ["[limits]", f"connections_max = {CONNECTIONS_MAX}"]
    with Cluster(tmp_path, brokers=3, settings=settings) as cluster, contextlib.ExitStack() as crowd:
        create_topic_in_sync(cluster, "t")
        away, *others = sorted(cluster.brokers.values(), key=lambda node: node.leader_of("t") == node.id)
        away.kill()
        for node in others:
            for _ in range(CONNECTIONS_MAX):
                crowd.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=10))
            assert is_refused(node), "clients have all the places that are for them"
        wait_until(lambda: away.id not in others[0].partition("t")["isr"], "a broker out of sync")
        away.start()
        wait_until(lambda: len(others[0].partition("t")["isr"]) == 3, "all in sync again")
        assert all(is_refused(node) for node in others)


def is_refused(node: NodeProcess) -> bool:
    """Whether an ordinary request ends the connection."""
    frame = encode_request(METADATA, 12, 1, {"topics": None})
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as connection:
        try:
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            return connection.recv(1) == b""
        except ConnectionError:
            return True
