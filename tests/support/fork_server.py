"""Starts `penstock` processes by forking one that has imported everything already.

Before it does anything, a broker of its own spends 0.3 s of processor time on imports, a command 0.3 s, a
gateway 0.9 s: over all tests that is minutes. What is forked here is a process like any other, with its own
arguments, environment, folder, files, signals and exit code, and it runs the same `main()`. What it does not
show is that the imports themselves work, in their order: tests of the entry point, of signals during the
start and of the wheel start `python -m penstock`, and so does the supervisor with all its nodes.

    process = fork(["topics", "list"], environment, cwd=None, stdin=0, stdout=1, stderr=2)
    process.wait(60.0)
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUEST_BYTES_MAX = 1 << 20
TOLD = struct.Struct("=ii")
"""The pid, and how the process ended, as `waitpid` says it; RUNNING before."""
RUNNING = -1
NAME_BYTES_MAX = 15
"""Of a process, as Linux keeps it."""

BROKER, GATEWAY, COMMANDS = "broker", "gateway", "commands"
KINDS = {"up": BROKER, "broker": BROKER, "gateway": GATEWAY}
"""Which server forks a command: a broker must not look as if it needed the gateway's memory."""
NOT_FORKED = ("flights", "demo")
"""What may start Spark, whose processes are started as a user does it."""
MODULES = {
    BROKER: ["penstock.cli.up", "penstock.broker.node"],
    GATEWAY: ["penstock.cli.gateway", "penstock.gateway.server", "penstock.gateway.app", "uvicorn"],
    COMMANDS: ["confluent_kafka.admin"],
}
"""What is imported only when it is known what to do."""
ASKED_BY_LIBRDKAFKA = {9: 7, 10: 2, 11: 5, 12: 3, 13: 1, 14: 3, 18: 3, 19: 4, 20: 4}
"""Versions of APIs, where it does not know the newest. Each broker would load their schemas for itself."""


class ForkedProcess:
    """As `Popen`, of a process whose parent is not this one: that parent tells its pid, and how it ended."""

    def __init__(self, told: socket.socket) -> None:
        self.returncode: int | None = None
        """`-N` if signal N ended it."""
        self._told = told.detach()
        weakref.finalize(self, os.close, self._told)
        self._lock = threading.Lock()  # several threads of a test may ask
        self.pid = self._hear()

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            readable = select.poll()
            readable.register(self._told, select.POLLIN)
            if not readable.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(["penstock"], timeout or 0.0)
            with self._lock:
                if self.returncode is None:
                    self._hear()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self) -> int:
        told = os.read(self._told, TOLD.size)
        assert len(told) == TOLD.size, "the process that starts others has died"
        pid, status = TOLD.unpack(told)
        if status != RUNNING:
            self.returncode = os.waitstatus_to_exitcode(status)
        return int(pid)


class ForkServer:
    """The side of the test process; the other one ends with it."""

    def __init__(self, kind: str) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES_MAX)
        self._lock = threading.Lock()
        path = os.pathsep.join(map(str, (ROOT / "tests/support/as_installed", ROOT / "src", ROOT)))
        with theirs:
            # `penstock` among the arguments: whoever is about to kill a node looks for it there.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", "penstock", kind, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""},
                pass_fds=[theirs.fileno()],
            )

    def fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], cwd: str, standard: Sequence[int]
    ) -> ForkedProcess:
        told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        file_bytes_max, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        request = json.dumps([list(arguments), dict(environment), cwd, file_bytes_max]).encode()
        with theirs, self._lock:
            socket.send_fds(self._requests, [request], [*standard, theirs.fileno()])
        return ForkedProcess(told)

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


@cache
def server(kind: str) -> ForkServer:
    """One of each kind for a test process, from when it is needed."""
    started = ForkServer(kind)
    atexit.register(started.close)
    return started


def may_fork(arguments: Sequence[str]) -> bool:
    return not arguments or (arguments[0] not in NOT_FORKED and "heatmap" not in arguments)


def fork(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: Path | None,
    stdin: int,
    stdout: int,
    stderr: int,
) -> ForkedProcess:
    kind = KINDS.get(arguments[0], COMMANDS) if arguments else COMMANDS
    where = str(cwd) if cwd is not None else os.getcwd()
    return server(kind).fork(arguments, environment, where, (stdin, stdout, stderr))


# The other side


def serve(requests: socket.socket) -> None:
    """Returns in a new process, ready to be what was asked for; or exits, when there are no more tests."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for the others
    while True:
        request, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 4)
        if not request:
            sys.exit(0)
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, told = files
    with socket.socket(fileno=told) as told_of:
        pid = os.fork()
        if pid != 0:
            wait_for(pid, told_of, standard)
        become(*json.loads(request), standard)
        told_of.sendall(TOLD.pack(os.getpid(), RUNNING))


def wait_for(pid: int, told_of: socket.socket, standard: Sequence[int]) -> None:
    """The life of its parent, which whoever interrupts the tests must not end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for file in standard:
        os.close(file)  # where its output ends must be seen from its own end
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        told_of.sendall(TOLD.pack(pid, status))
    os._exit(0)


def become(
    arguments: list[str], environment: dict[str, str], cwd: str, file_bytes_max: int, standard: Sequence[int]
) -> None:
    for number, file in enumerate(standard):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    # What a full disk is where nobody may mount a small one.
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["penstock", *arguments]
    if arguments:
        with contextlib.suppress(OSError, ValueError):
            Path("/proc/self/comm").write_text(arguments[0][:NAME_BYTES_MAX])


def prepare(kind: str) -> None:
    for module in MODULES[kind]:
        importlib.import_module(module)
    if kind == COMMANDS:
        from penstock.cli.app import build

        build([])
    if kind == BROKER:
        from penstock.broker.handlers import load_handlers
        from penstock.wire.exchange import load_exchange

        for handler in load_handlers():
            for version in {handler.versions[-1], ASKED_BY_LIBRDKAFKA.get(handler.key, handler.versions[-1])}:
                assert handler.codec(version).response_names
            if handler.between_nodes:
                load_exchange(handler.key, handler.versions[-1])


if __name__ == "__main__":
    from penstock import __main__ as command

    _, _, wanted, descriptor = sys.argv
    with socket.socket(fileno=int(descriptor)) as listening:
        prepare(wanted)
        serve(listening)
    command.main()
