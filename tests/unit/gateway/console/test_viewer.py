"""Who is a viewer: whoever sends back what this gateway gave."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from penstock.gateway.console import viewer


def app() -> FastAPI:
    made = FastAPI()
    viewer.install(made)
    return made


def request(app: FastAPI, cookie: str | None = None, *, scheme: str = "http", port: int = 8080) -> Request:
    headers = [(b"host", b"127.0.0.1")]
    if cookie is not None:
        headers.append((b"cookie", cookie.encode("latin-1")))
    scope: dict[str, Any] = {"type": "http", "app": app, "scheme": scheme, "path": "/", "headers": headers}
    return Request(scope | {"server": ("127.0.0.1", port), "method": "GET", "query_string": b""})


def given(app: FastAPI, **how: Any) -> str:
    """The whole `Set-Cookie` header."""
    response = Response()
    asked = request(app, **how)
    viewer.viewers_of(asked).welcome(asked, response)
    return response.headers["set-cookie"]


def sent_back(cookie: str) -> str:
    return cookie.partition(";")[0]


def test_the_browser_that_was_welcomed_is_a_viewer() -> None:
    here = app()
    cookie = sent_back(given(here))
    assert viewer.is_viewer(request(here, cookie))
    assert viewer.is_viewer(request(here, f"other=1; {cookie}; more=2"))


@pytest.mark.parametrize(
    "cookie",
    [
        None,
        "",
        "penstock_viewer=",
        "penstock_viewer_8080=guess",
        "penstock_viewer=\xe9\xff",
        "a=b; penstock_viewer",
    ],
)
def test_nobody_else_is(cookie: str | None) -> None:
    assert not viewer.is_viewer(request(app(), cookie))


def test_a_cookie_of_another_process_means_nothing() -> None:
    assert not viewer.is_viewer(request(app(), sent_back(given(app()))))


def test_a_value_under_another_name_means_nothing() -> None:
    here = app()
    value = sent_back(given(here)).partition("=")[2]
    assert not viewer.is_viewer(request(here, f"session={value}"))


def test_scripts_can_not_read_it_and_other_sites_can_not_use_it() -> None:
    cookie = given(app()).lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "secure" not in cookie


def test_under_https_it_never_travels_in_the_clear() -> None:
    assert "secure" in given(app(), scheme="https").lower()


def test_gateways_beside_each_other_keep_their_cookies_apart() -> None:
    one, other = app(), app()
    cookies = [sent_back(given(one, port=8080)), sent_back(given(other, port=8081))]
    assert len({cookie.partition("=")[0] for cookie in cookies}) == 2
    both = "; ".join(cookies)
    assert viewer.is_viewer(request(one, both, port=8080))
    assert viewer.is_viewer(request(other, both, port=8081))
