"""Processes of the benchmark: started here, measured here, ended here by their own ids."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

ROOT: Final = Path(__file__).resolve().parent.parent
STOP_SECONDS_MAX: Final = 60
LOAD_SECONDS_MAX: Final = 180
FIRST_PORT, LAST_PORT = 20_000, 32_000

_started: list[subprocess.Popen[bytes]] = []


class UnavailableError(Exception):
    """This peer cannot run here; the reason is one line."""


def spawn(
    argv: Sequence[object], log: Path, env: Mapping[str, str] | None = None, user: str | None = None
) -> subprocess.Popen[bytes]:
    """Start a server with its output in `log`, as `user`. It is ended at exit if nobody ended it before."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **(env or {})}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
            user=user,
        )
    _started.append(process)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end, then insist; what it started itself and left behind goes too."""
    if process in _started:
        _started.remove(process)
    descendants = _descendants(process.pid)
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for left in descendants:
        with contextlib.suppress(psutil.NoSuchProcess):
            left.terminate()
    for left in psutil.wait_procs(descendants, STOP_SECONDS_MAX)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            left.kill()


@atexit.register
def stop_all() -> None:
    while _started:
        stop(_started[-1])


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def tree(pid: int) -> list[psutil.Process]:
    return [psutil.Process(pid), *_descendants(pid)]


def cpu_seconds(pid: int) -> float:
    """User and system time so far, all threads, of the process and what it started."""
    return float(sum(sum(process.cpu_times()[:2]) for process in tree(pid)))


def resident_bytes(pid: int) -> int:
    return sum(int(process.memory_info().rss) for process in tree(pid))


def open_files(pid: int) -> int:
    return sum(int(process.num_fds()) for process in tree(pid))


def require_module(name: str) -> None:
    """The client of a peer; `bench/requirements.txt` lists them."""
    if importlib.util.find_spec(name) is None:
        raise UnavailableError(f"no Python client {name}")


def free_port() -> int:
    """From below the range of outgoing connections: a server that was killed finds its port free again."""
    ports = random.SystemRandom()
    while True:
        port = ports.randint(FIRST_PORT, LAST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(
    ready: Callable[[], bool], what: str, process: subprocess.Popen[bytes], seconds_max: float = 60
) -> None:
    deadline = time.monotonic() + seconds_max
    while not ready():
        if process.poll() is not None:
            raise UnavailableError(f"{what} ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise UnavailableError(f"{what} was not ready after {seconds_max:.0f} s")
        time.sleep(0.01)


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run_load(name: str, **arguments: Any) -> dict[str, Any]:
    """Run one load generator to its end; what it printed is the result."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.load.{name}", json.dumps(arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        timeout=LOAD_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise RuntimeError(f"load {name} failed: {' / '.join(last)}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
