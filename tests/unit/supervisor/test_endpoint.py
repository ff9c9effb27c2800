from __future__ import annotations

import json
import socket
from http import HTTPStatus
from typing import Any

import pytest

from penstock.broker.http import HttpError, Request
from penstock.listening import bind
from penstock.supervisor.endpoint import Endpoint
from penstock.supervisor.view import Cursor


def ask(path: str, not_running: dict[str, str] | None = None) -> Any:
    endpoint = Endpoint(
        status=lambda: {"cluster_id": "abc"},
        log=lambda after: {"events": [], "after": str(after)},
        not_running=lambda: not_running or {},
    )
    return endpoint.answer(Request("GET", path, True))


def refused(path: str, not_running: dict[str, str] | None = None) -> HttpError:
    with pytest.raises(HttpError) as caught:
        ask(path, not_running)
    return caught.value


def test_health_and_readiness() -> None:
    for path in ("/healthz", "/readyz"):
        assert json.loads(ask(path).body) == {"status": "success"}
    error = refused("/readyz", {"node 3": "down", "node 2": "starting", "the gateway": "down"})
    assert error.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert str(error) == "not all nodes serve: node 2 is starting, node 3 is down, the gateway is down"
    assert json.loads(ask("/healthz", {"node 3": "down"}).body) == {"status": "success"}


def test_status_and_log() -> None:
    assert json.loads(ask("/v1/cluster").body) == {"cluster_id": "abc"}
    assert json.loads(ask("/v1/cluster/log").body)["after"] == str(Cursor())
    assert json.loads(ask("/v1/cluster/log/5.7").body)["after"] == "5.7"
    assert b"/v1/cluster/log" in ask("/").body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/cluster/log/soon", HTTPStatus.BAD_REQUEST),
        ("/v1/cluster/log/1", HTTPStatus.BAD_REQUEST),
        ("/v1/cluster/logs", HTTPStatus.NOT_FOUND),
        ("/v1", HTTPStatus.NOT_FOUND),
    ],
)
def test_what_is_not_there(path: str, status: HTTPStatus) -> None:
    assert refused(path).status is status


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError) as caught:
            bind("127.0.0.1", port)
        assert caught.value.strerror == f"cannot listen on 127.0.0.1:{port}: Address already in use"
