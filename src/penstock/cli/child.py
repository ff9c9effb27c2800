"""A broker of one's own: `penstock up` as a child process on free ports, in a folder that goes away.

An exception ends both, also the one that SIGINT and SIGTERM become. Where the command itself is killed, Linux
ends the broker, and only the folder stays.
"""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.output import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

READY_SECONDS_MAX = 15.0
STOP_SECONDS_MAX = 15.0
PR_SET_PDEATHSIG = 1  # of Linux' sys/prctl.h
LIBC = ctypes.CDLL(None)
"""Loaded here: between fork and exec there should be no more than one call."""


class Child(NamedTuple):
    bootstrap: str
    http: str
    pid: int


@contextmanager
def temporary_broker(*options: str) -> Iterator[Child]:
    """Runs a broker while the block runs; its port and the port of its endpoint are picked by the system."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        command = [sys.executable, "-m", "penstock", "up", "--data", f"{folder}/data"]
        process = subprocess.Popen(  # noqa: S603 - this interpreter and this package
            [*command, "--port", "0", "--http-port", "0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C on the terminal is for the command, which then stops the broker.
            start_new_session=True,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )
        try:
            yield wait_ready(process)
        finally:
            with undisturbed():
                stop(process)


def end_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals are ignored while the block runs: a second Ctrl-C must not leave a broker behind."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def wait_ready(process: subprocess.Popen[str]) -> Child:
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[str] = []
    # Both pipes are read to their end, or the child would stop when one is full.
    threading.Thread(target=errors.extend, args=(process.stderr,), daemon=True).start()
    watchdog = threading.Timer(READY_SECONDS_MAX, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            found = re.match(r"ready kafka=(\S+) http=(\S+)", line)
            if found:
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return Child(found[1], found[2], process.pid)
    finally:
        watchdog.cancel()
    process.wait()
    reason = errors[-1].strip().removeprefix("penstock: ") if errors else "no reason given"
    raise CommandFailed(f"the broker did not start: {reason}")


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
