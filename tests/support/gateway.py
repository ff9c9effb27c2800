"""A real `penstock gateway` as a child process.

    with BrokerProcess(folder) as broker, GatewayProcess(folder, broker.bootstrap) as gateway:
        httpx.get(f"{gateway.url}/topics")

The port is picked once and kept over restarts, as the broker's is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx

from tests.support.broker import SOURCE
from tests.support.ports import free_port
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

READY_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 20.0
REQUEST_SECONDS_MAX = 40.0


class GatewayProcess:
    def __init__(self, folder: Path, bootstrap: str, *options: str, port: int | None = None) -> None:
        """`folder` holds the output; `options` go to `penstock gateway` as they are."""
        self.bootstrap = bootstrap
        self.options = options
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log_path = folder / f"gateway-{self.port}.log"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(base_url=self.url, timeout=REQUEST_SECONDS_MAX, trust_env=False)

    def command(self) -> list[str]:
        where = ["--bootstrap", self.bootstrap, "--http-port", str(self.port)]
        return [sys.executable, "-m", "penstock", "gateway", *where, *self.options]

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
                env=os.environ | {"PYTHONPATH": str(SOURCE)},
            )

    def start(self) -> GatewayProcess:
        self.spawn()
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"penstock gateway ended with {self.process.returncode}:\n{self.log}")
            return any(line.startswith("ready http=") for line in self.log.splitlines())

        wait_until(is_ready, "the ready line of penstock gateway", timeout_s=READY_SECONDS_MAX)

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

    def kill(self) -> None:
        if self.running:
            self.process.kill()
        self.process.wait(STOP_SECONDS_MAX)

    def terminate(self) -> int:
        """SIGTERM, then the exit code, which is 0 after a clean stop."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS_MAX * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"penstock gateway did not end:\n{self.log}") from None

    def restart(self, *, clean: bool = True) -> GatewayProcess:
        if clean:
            assert self.terminate() == 0, self.log
        else:
            self.kill()
        return self.start()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._http.request(method, path, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.request("POST", path, json=body, **options)

    def __enter__(self) -> GatewayProcess:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"end of the gateway's output:\n{self.log[-4_000:]}")
        self._http.close()
        if self._process is None:
            return
        self.kill() if kind is not None else self.terminate()
