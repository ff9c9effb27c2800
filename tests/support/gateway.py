"""A real `penstock gateway` as a child process.

    with BrokerProcess(folder) as broker, GatewayProcess(folder, broker.bootstrap) as gateway:
        httpx.get(f"{gateway.url}/topics")

The port is picked once and kept over restarts, as the broker's is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from tests.support.managed_process import ManagedProcess, penstock
from tests.support.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

REQUEST_SECONDS_MAX = 40.0


class GatewayProcess(ManagedProcess):
    def __init__(self, folder: Path, bootstrap: str, *options: str, port: int | None = None) -> None:
        """`folder` holds the output; `options` go to `penstock gateway` as they are."""
        self.bootstrap = bootstrap
        self.options = options
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        super().__init__("penstock gateway", folder / f"gateway-{self.port}.log", ready="ready http=")
        self._http = httpx.Client(base_url=self.url, timeout=REQUEST_SECONDS_MAX, trust_env=False)

    def command(self) -> list[str]:
        where = ["--bootstrap", self.bootstrap, "--http-port", str(self.port)]
        return penstock("gateway", *where, *self.options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._http.request(method, path, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.request("POST", path, json=body, **options)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
        super().__exit__(kind, error, trace)
