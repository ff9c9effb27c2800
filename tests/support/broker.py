"""A real `penstock up` as a child process, for every test that wants a broker and not a part of one.

    with BrokerProcess(tmp_path) as broker:
        Producer({"bootstrap.servers": broker.bootstrap})

The ports are picked once and kept over `restart()`, so clients find the broker again. Everything the child
prints goes to `broker.log`; a test that fails shows its end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.ports import free_port
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

SOURCE = Path(__file__).parents[2] / "src"
READY_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 20.0


class BrokerProcess:
    def __init__(
        self,
        folder: Path,
        *options: str,
        port: int | None = None,
        http_port: int | None = None,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        with_gateway: bool = False,
    ) -> None:
        """`folder` holds the data folder and the output; `options` go to `penstock up` as they are."""
        self._with_gateway = with_gateway
        self.data = folder / "data"
        self.options: Sequence[str] = options
        self.port = port or free_port()
        self.http_port = http_port or free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.http = f"http://127.0.0.1:{self.http_port}"
        self._environment = {**os.environ, "PYTHONPATH": str(SOURCE), **(environment or {})}
        self._python = python
        self._log_path = folder / "broker.log"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        ports = ["--port", str(self.port), "--http-port", str(self.http_port)]
        gateway = [] if self._with_gateway else ["--no-gateway"]
        up = [self._python, "-m", "penstock", "up", "--data", str(self.data)]
        return [*up, *ports, *gateway, *self.options]

    def spawn(self) -> None:
        """Starts the child and does not wait until it serves."""
        assert self._process is None or self._process.poll() is not None, "it runs already"
        with self._log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )

    def start(self, *, timeout_s: float = READY_SECONDS_MAX) -> BrokerProcess:
        """Starts the child and waits for its `ready` line."""
        self.spawn()
        self.wait_ready(timeout_s=timeout_s)
        return self

    def wait_ready(self, *, timeout_s: float = READY_SECONDS_MAX) -> str:
        """The `ready` line."""

        def ready_line() -> str | None:
            lines = self.log.splitlines()
            ready = next((line for line in lines if line.startswith("ready ")), None)
            if ready is None and self.process.poll() is not None:
                raise AssertionError(f"penstock up ended with {self.process.returncode}:\n{self.log}")
            return ready

        try:
            return str(wait_until(ready_line, "the ready line of penstock up", timeout_s=timeout_s))
        except AssertionError as error:
            error.add_note(f"its output:\n{self.log}")
            self.kill()
            raise

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the child printed since its last start."""
        with self._log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: what a crash of the machine's power supply is to the process, not to the disk."""
        if self.running:
            self.process.kill()
        self.process.wait(STOP_SECONDS_MAX)

    def terminate(self, *, timeout_s: float = STOP_SECONDS_MAX) -> int:
        """SIGTERM, then the exit code, which is 0 after a clean stop."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s=timeout_s)

    def wait(self, *, timeout_s: float = STOP_SECONDS_MAX) -> int:
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"penstock up did not end within {timeout_s:g} s:\n{self.log}") from None

    def restart(self, *, clean: bool = True) -> BrokerProcess:
        """The same broker again, on the same ports and data, after a clean stop or after SIGKILL."""
        if clean:
            code = self.terminate()
            assert code == 0, f"penstock up ended with {code}:\n{self.log}"
        else:
            self.kill()
        return self.start()

    def __enter__(self) -> BrokerProcess:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"end of the broker's output:\n{self.log[-4_000:]}")
        if self._process is None:
            return
        self.kill() if kind is not None else self.terminate()
