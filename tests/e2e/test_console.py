"""The console as a real gateway serves it. What it looks like is for the tests in tests/browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from penstock import __version__
from penstock.traffic.topics import HEATMAP
from tests.support.gateway import GatewayProcess
from tests.support.topics import create_topic, delete_topic

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker import BrokerProcess

TOKEN = "let-me-look-please"


def test_the_page_and_all_that_it_names(shared_gateway: GatewayProcess) -> None:
    page = shared_gateway.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-cache"
    assert "<title>Penstock</title>" in page.text, "built by `make console`"
    named = re.findall(r'(?:src|href)="(/console/[^"]+)"', page.text)
    assert any(name.endswith(".js") for name in named)
    for name in named:
        file = shared_gateway.get(name)
        assert file.status_code == 200, name
        assert len(file.content) > 0
    assert "<script>" not in page.text, "its own policy forbids it"
    scripts = [name for name in named if "/assets/" in name]
    assert all("immutable" in shared_gateway.get(name).headers["cache-control"] for name in scripts)
    assert all(shared_gateway.get(name).headers["content-encoding"] == "gzip" for name in scripts)


@pytest.mark.parametrize(
    "path",
    ["/console/../pages.py", "/console/%2e%2e/pages.py", "/console/..%2fpages.py", "/console//etc/passwd"],
)
def test_nothing_else_can_be_had(shared_gateway: GatewayProcess, path: str) -> None:
    answer = shared_gateway.get(path)
    assert answer.status_code == 404
    assert answer.json()["status"] == "failure"


def test_what_the_console_asks_first(shared_gateway: GatewayProcess, shared_broker: BrokerProcess) -> None:
    told = shared_gateway.get("/v1/console")
    answer = told.json()
    assert answer.pop("cluster_id")
    assert answer == {"version": __version__, "local": True, "traffic": False, "auth": False}
    cookie = told.headers["set-cookie"].lower()
    assert cookie.startswith("penstock_viewer")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    create_topic(shared_broker.bootstrap, HEATMAP)
    try:
        assert shared_gateway.get("/v1/console").json()["traffic"] is True
    finally:
        delete_topic(shared_broker.bootstrap, HEATMAP)


def test_where_tokens_are_asked_for(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {TOKEN}\n")
    with GatewayProcess(tmp_path, shared_broker.bootstrap, "--http-token-file", str(tokens)) as gateway:
        assert gateway.get("/").status_code == 200
        answer = gateway.get("/v1/console").json()
        assert answer["auth"] is True
        assert answer["local"] is False, "nobody told it where the admin endpoint is"
        assert gateway.get("/v1/cluster").status_code == 401, "a viewer is not a reader"


def test_without_brokers(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "127.0.0.1:1") as gateway:
        assert gateway.get("/").status_code == 200
        answer = gateway.get("/v1/console").json()
        assert answer["cluster_id"] is None
        assert answer["traffic"] is False
