"""The floor: a server that reads the same frames, writes them to a file and gives a canned answer."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.peers.base import Peer
from bench.process import free_port, listening, spawn, wait_until


def start(directory: Path) -> Peer:
    port = free_port()
    argv = [sys.executable, "-m", "bench.peers.sink_server", str(port), directory / "frames"]
    process = spawn(argv, directory / "sink.log")
    wait_until(lambda: listening(port), "sink", process)
    return Peer(name="raw sink", version="uvloop", port=port, process=process, directory=directory)
