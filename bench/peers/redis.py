"""Redis with an append-only file: `always` beside flush=commit, `everysec` beside flush=os."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.peers.base import Peer
from bench.process import UnavailableError, free_port, listening, require_module, spawn, wait_until


def start(directory: Path, *, fsync: str) -> Peer:
    require_module("redis")
    binary = shutil.which("redis-server")
    if binary is None:
        raise UnavailableError("no redis-server")
    port = free_port()
    options = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": directory,
        "appendonly": "yes",
        "appendfsync": fsync,
        "save": "",
    }
    argv = [binary]
    for name, value in options.items():
        argv += [f"--{name}", str(value)]
    process = spawn(argv, directory / "redis.log")
    wait_until(lambda: listening(port), "redis-server", process)
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    version = said.split("v=")[1].split()[0]
    return Peer(name=f"Redis {fsync}", version=version, port=port, process=process, directory=directory)
