from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock.demo.figures import Totals
from penstock.demo.gateway import Gateway
from tests.support.wait import wait_until

TOTALS = {"sent": 5, "counted": 5, "late": 0, "duplicate": 0, "malformed": 0}
HEAT = {"cells": [{"count": 5}], "newest": 1_000, "totals": TOTALS}


class FakeGateway:
    """Answers as a gateway does; `viewer` is the cookie of this process of it."""

    def __init__(self) -> None:
        self.viewer = "first"
        self.paths: list[str] = []
        self.is_away = False
        self.events: list[dict[str, Any]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.paths.append(self.path)
                code, body, cookie = outer.answer(self.path, self.headers.get("cookie", ""))
                self.send_response(code)
                if cookie:
                    self.send_header(
                        "set-cookie", f"penstock_viewer={cookie}; HttpOnly; Path=/; SameSite=strict"
                    )
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def answer(self, path: str, cookie: str) -> tuple[int, bytes, str]:
        if self.is_away:
            return 503, b"not JSON", ""
        if path.startswith("/v1/cluster/log"):
            new = [] if path.endswith("/7.7") else self.events
            return 200, json.dumps({"events": new, "after": "7.7"}).encode(), ""
        if path == "/v1/cluster":
            return 200, json.dumps({"controller": 2, "brokers": [{"id": 2, "state": "running"}]}).encode(), ""
        if path == "/v1/console":
            return 200, b"{}", self.viewer
        if self.viewer not in cookie:
            return 403, b"{}", ""
        return 200, json.dumps(HEAT).encode(), ""


@pytest.fixture
def fake() -> Iterator[FakeGateway]:
    fake = FakeGateway()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


@pytest.fixture
def gateway(fake: FakeGateway) -> Iterator[Gateway]:
    gateway = Gateway(fake.url)
    gateway.start()
    yield gateway
    gateway.stop()


def test_what_it_tells(fake: FakeGateway, gateway: Gateway) -> None:
    fake.events = [{"timestamp_ms": 1, "kind": "node_ended", "text": "node 2 ended", "nodes": [2]}]
    heat = wait_until(lambda: gateway.figures.heat if gateway.figures.heat.cells else None, "heat")
    assert heat.totals == Totals(5, 5, 0, 0, 0)
    assert (gateway.figures.answers, gateway.figures.controller) == (True, 2)
    wait_until(lambda: "/v1/cluster/log/7.7" in fake.paths, "going on in the log")
    assert [event.text for event in gateway.figures.events] == ["node 2 ended"]


def test_a_viewer_of_another_process_introduces_itself_again(fake: FakeGateway, gateway: Gateway) -> None:
    wait_until(lambda: gateway.figures.heat.cells, "heat")
    assert fake.paths.count("/v1/console") == 1
    fake.viewer = "second"
    wait_until(lambda: fake.paths.count("/v1/console") == 2, "another look at the console")
    wait_until(lambda: fake.paths[-1] == "/v1/traffic/heatmap", "heat again")


def test_what_was_told_last_stays_while_it_is_away(fake: FakeGateway, gateway: Gateway) -> None:
    wait_until(lambda: gateway.figures.heat.cells, "heat")
    fake.is_away = True
    wait_until(lambda: not gateway.figures.answers, "that it is away")
    assert gateway.figures.heat.cells
    fake.is_away = False
    wait_until(lambda: gateway.figures.answers, "that it is back")
