"""The guard before the application."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.gateway.access import Level, Tokens, needed
from penstock.gateway.errors import ApiFailure
from penstock.gateway.safety import Guard
from penstock.gateway.settings import GatewayLimits, GatewaySettings
from tests.unit.gateway.asgi import Called, call

READ, WRITE, ADMIN = "r" * 20, "w" * 20, "a" * 20
TOKENS = Tokens({READ: Level.READ, WRITE: Level.WRITE, ADMIN: Level.ADMIN})
ELSEWHERE = "192.0.2.7"


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    length, more = 0, True
    try:
        while more:
            message = await receive()
            length += len(message.get("body", b""))
            more = message.get("more_body", False)
    except ApiFailure as failure:
        await send({"type": "http.response.start", "status": failure.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


def guard(tokens: Tokens | None = None, *, limits: GatewayLimits | None = None, **settings: Any) -> Guard:
    return Guard(application, GatewaySettings(limits=limits or GatewayLimits(), **settings), tokens)


def assert_refused(answer: Called, status: int, words: str) -> None:
    assert answer.status == status
    body = answer.json()
    assert body["status"] == "failure"
    assert words in body["message"]


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


def test_a_request_id_goes_in_and_out() -> None:
    assert call(guard(), headers=[("x-request-id", "abc-1")]).headers["x-request-id"] == "abc-1"


def test_a_request_without_an_id_gets_one_of_its_own() -> None:
    app = guard()
    ids = {call(app).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


@pytest.mark.parametrize("wrong", ["", "a b", "x" * 129, "a\r\nset-cookie: b", "ä"])
def test_a_request_id_that_is_no_word_is_replaced(wrong: str) -> None:
    assert call(guard(), headers=[("x-request-id", wrong)]).headers["x-request-id"] != wrong


def test_refusals_have_a_request_id_too() -> None:
    answer = call(guard(TOKENS), path="/topics", headers=[("x-request-id", "abc")])
    assert_refused(answer, 401, "a token is needed")
    assert answer.headers["x-request-id"] == "abc"
    assert answer.headers["www-authenticate"] == "Bearer"


LARGE = GatewayLimits(body_bytes_max=10)


def test_a_body_that_is_announced_as_too_large() -> None:
    answer = call(guard(limits=LARGE), "POST", headers=[("content-length", "11")], body=b"x" * 11)
    assert_refused(answer, 413, "10 bytes")
    assert answer.headers["connection"] == "close"


def test_a_body_that_turns_out_to_be_too_large() -> None:
    assert call(guard(limits=LARGE), "POST", body=[b"x" * 5, b"x" * 6]).status == 413


def test_a_body_as_large_as_allowed() -> None:
    assert call(guard(limits=LARGE), "POST", body=[b"x" * 5, b"x" * 5]).body == b"10"
    assert call(guard(limits=LARGE), "POST", headers=[("content-length", "10")], body=b"x" * 10).status == 200


def test_an_address_that_asks_too_often() -> None:
    app = guard(limits=GatewayLimits(requests_per_second_max=0.001, requests_burst_max=2), no_auth=True)
    assert [call(app, client=ELSEWHERE).status for _ in range(3)] == [200, 200, 429]
    refused = call(app, client=ELSEWHERE)
    assert_refused(refused, 429, "too many requests")
    assert int(refused.headers["retry-after"]) > 100
    assert call(app, client="192.0.2.8").status == 200
    assert all(call(app).status == 200 for _ in range(5)), "this machine's own clients are not limited"


@pytest.mark.parametrize(
    ("method", "path", "lowest"),
    [
        ("GET", "/healthz", Level.OPEN),
        ("GET", "/docs", Level.OPEN),
        ("GET", "/", Level.OPEN),
        ("GET", "/v1/console", Level.OPEN),
        ("GET", "/console/assets/index-1a2b3c4d.js", Level.OPEN),
        ("GET", "/consoles", Level.READ),
        ("GET", "/v1/console/more", Level.READ),
        ("GET", "/metrics", Level.READ),
        ("GET", "/topics", Level.READ),
        ("GET", "/consumer/consume", Level.READ),
        ("POST", "/consumer/register", Level.READ),
        ("GET", "/v1/topics/t/events", Level.READ),
        ("POST", "/producer/produce", Level.WRITE),
        ("POST", "/topics", Level.WRITE),
        ("PUT", "/v1/flights/jobs/j/airports", Level.WRITE),
        ("PATCH", "/v1/topics/t", Level.ADMIN),
        ("DELETE", "/v1/topics/t", Level.ADMIN),
        ("POST", "/v1/cluster/kill", Level.ADMIN),
    ],
)
def test_what_each_token_may_do(method: str, path: str, lowest: Level) -> None:
    app = guard(TOKENS)
    statuses = [call(app, method, path, headers=bearer(token)).status for token in (READ, WRITE, ADMIN)]
    without = call(app, method, path).status
    allowed = [without, *statuses]
    assert allowed == [
        200 if level >= lowest else 401 if level is Level.OPEN else 403
        for level in (Level.OPEN, Level.READ, Level.WRITE, Level.ADMIN)
    ]


def test_websockets_need_tokens_too() -> None:
    assert needed("websocket", "GET", "/v1/topics/t/stream") is Level.READ
    assert needed("websocket", "GET", "/v1/topics/t/produce") is Level.WRITE
    app = guard(TOKENS)
    extensions: dict[str, Any] = {"websocket.http.response": {}}
    path = "/v1/topics/t/stream"
    assert_refused(call(app, path=path, kind="websocket", extensions=extensions), 401, "token")
    closed = call(app, path=path, kind="websocket")
    assert closed.sent[0]["type"] == "websocket.close"
    opened = call(app, path=path, kind="websocket", query=f"offset=1&access_token={READ}")
    assert opened.sent[0]["type"] == "websocket.accept"


@pytest.mark.parametrize(
    "header", ["Basic abc", "Bearer", f"Bearer {READ}x", "Bearer  ", READ, "bearer \xff"]
)
def test_tokens_that_nobody_has(header: str) -> None:
    answer = call(guard(TOKENS), path="/topics", headers=[("authorization", header)])
    assert_refused(answer, 401, "not known")


def test_a_token_in_the_query_is_for_reading_only() -> None:
    answer = call(guard(TOKENS), "POST", "/producer/produce", query=f"access_token={WRITE}")
    assert answer.status == 401


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.9.9.9"])
def test_names_of_this_machine(host: str) -> None:
    assert call(guard(), headers=[("host", host)]).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "192.0.2.1", "127.0.0.1.evil.example", ""]
)
def test_a_name_that_was_pointed_at_this_machine(host: str) -> None:
    assert_refused(call(guard(), headers=[("host", host)]), 403, "name of this machine")
    assert call(guard(TOKENS), headers=[("host", host)]).status == 200


def page(origin: str, site: str = "cross-site") -> list[tuple[str, str]]:
    return [("host", "127.0.0.1:8080"), ("origin", origin), ("sec-fetch-site", site)]


def test_pages_of_others_are_refused() -> None:
    assert_refused(call(guard(), "POST", "/topics", headers=page("https://evil.example")), 403, "origin")
    assert_refused(call(guard(), "POST", "/topics", headers=page("null")), 403, "origin")
    image = [("host", "127.0.0.1:8080"), ("sec-fetch-site", "cross-site")]
    assert_refused(call(guard(), path="/consumer/consume", headers=image), 403, "other sites")


def test_pages_of_another_port_are_those_of_others() -> None:
    """To browsers they are of the same site, and a picture or a script of theirs has no origin."""
    other = page("http://127.0.0.1:3000", "same-site")
    assert_refused(call(guard(), "POST", "/topics", headers=other), 403, "origin")
    image = [("host", "127.0.0.1:8080"), ("sec-fetch-site", "same-site")]
    for app in (guard(), guard(TOKENS), guard(no_auth=True)):
        assert_refused(call(app, path="/consumer/consume", headers=image), 403, "other sites")
    socket = call(guard(), path="/v1/topics/t/stream", kind="websocket", headers=other)
    assert socket.sent[0]["type"] == "websocket.close"
    named = guard(cors_origins=("http://127.0.0.1:3000",))
    assert call(named, "POST", "/topics", headers=other).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("gateway.example:8080", 200),
        ("Named.Example", 200),
        ("localhost:8080", 200),
        ("192.0.2.1:8080", 200),
        ("[2001:db8::1]:8080", 200),
        ("evil.example", 403),
        ("192.0.2.1.evil.example:8080", 403),
    ],
)
def test_without_tokens_other_machines_ask_by_a_name_that_is_known(host: str, status: int) -> None:
    app = guard(no_auth=True, host="gateway.example", hosts=("named.example",))
    assert call(app, path="/topics", headers=[("host", host)]).status == status


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_links_of_others_may_lead_to_its_pages(path: str) -> None:
    link = [("host", "127.0.0.1:8080"), ("sec-fetch-site", "cross-site")]
    assert call(guard(), path=path, headers=link).status == 200
    assert_refused(call(guard(), path=path, headers=page("https://evil.example")), 403, "origin")


def test_its_own_pages_are_welcome() -> None:
    answer = call(guard(), "POST", "/topics", headers=page("http://127.0.0.1:8080", "same-origin"))
    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers


def test_pages_of_named_origins_are_welcome() -> None:
    app = guard(cors_origins=("https://console.example",))
    answer = call(app, "POST", "/topics", headers=page("https://console.example"))
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://console.example"
    asked = call(app, "OPTIONS", "/topics", headers=page("https://console.example"))
    assert asked.status == 204
    assert "authorization" in asked.headers["access-control-allow-headers"]
    assert call(app, "OPTIONS", "/topics", headers=page("https://evil.example")).status == 403
