"""NATS with JetStream on files; like flush=os, it leaves the fsync to a timer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.peers.base import Peer
from bench.process import UnavailableError, free_port, listening, require_module, spawn, wait_until


def start(directory: Path) -> Peer:
    require_module("nats")
    binary = shutil.which("nats-server")
    if binary is None:
        raise UnavailableError("no nats-server")
    port = free_port()
    argv = [binary, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", directory / "jetstream"]
    process = spawn(argv, directory / "nats.log")
    wait_until(lambda: listening(port), "nats-server", process)
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    version = said.strip().split("v")[-1]
    return Peer(name="NATS JetStream", version=version, port=port, process=process, directory=directory)
