"""Penstock itself, as a user starts it; also as it was in an earlier commit."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Final

from bench.peers.base import Peer
from bench.process import ROOT, UnavailableError, free_port, spawn, wait_until

BEFORE: Final = os.environ.get("PENSTOCK_BENCH_BEFORE", "")
"""The commit that this one is held against, in `--only before`."""


def launch(
    directory: Path,
    *,
    flush: str,
    data: Path | None = None,
    storage: str = "file",
    source: Path | None = None,
) -> Peer:
    """Start it and do not wait; from another `source` than this tree's if one is given."""
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
    environment = {"PYTHONPATH": str(source)} if source is not None else None
    process = spawn([*argv, "--no-http", "--flush", flush, "--storage", storage], log, environment)
    name = f"Penstock flush={flush}" if source is None else f"Before {BEFORE}"
    return Peer(name=name, version=version(), port=port, process=process, directory=directory)


def start(
    directory: Path,
    *,
    flush: str,
    data: Path | None = None,
    storage: str = "file",
    source: Path | None = None,
) -> Peer:
    peer = launch(directory, flush=flush, data=data, storage=storage, source=source)
    log = directory / "penstock.log"
    wait_until(lambda: b"ready kafka=" in log.read_bytes(), "penstock", peer.process)
    return peer


def source_before(directory: Path) -> Path:
    """The sources of that commit, unpacked there."""
    if not BEFORE:
        raise UnavailableError("PENSTOCK_BENCH_BEFORE names no commit")
    packed = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise UnavailableError(packed.stderr.decode().strip())
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory / "src"


def version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])
