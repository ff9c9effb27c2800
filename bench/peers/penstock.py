"""Penstock itself, as a user starts it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from bench.peers.base import Peer
from bench.process import ROOT, free_port, spawn, wait_until


def launch(directory: Path, *, flush: str, data: Path | None = None, storage: str = "file") -> Peer:
    """Start it and do not wait."""
    port, log = free_port(), directory / "penstock.log"
    argv: list[object] = [
        sys.executable,
        "-m",
        "penstock",
        "up",
        "--data",
        data or directory / "data",
        "--port",
        str(port),
    ]
    process = spawn([*argv, "--no-http", "--flush", flush, "--storage", storage], log)
    return Peer(
        name=f"Penstock flush={flush}", version=version(), port=port, process=process, directory=directory
    )


def start(directory: Path, *, flush: str, data: Path | None = None, storage: str = "file") -> Peer:
    peer = launch(directory, flush=flush, data=data, storage=storage)
    log = directory / "penstock.log"
    wait_until(lambda: b"ready kafka=" in log.read_bytes(), "penstock", peer.process)
    return peer


def version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])
