"""The console's files as browsers get them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from fastapi import FastAPI

from penstock.gateway import errors
from penstock.gateway.console import pages
from penstock.gateway.console.built import BuiltConsole
from tests.unit.gateway.asgi import Called, call

PAGE = b"<!doctype html><title>Console</title>"
SCRIPT = b"console.log(1);" * 100
NAME = "/console/assets/index-1a2b3c4d.js"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built = tmp_path / "assets"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_bytes(PAGE)
    (built / "favicon.svg").write_text("<svg/>")
    (built / "assets" / "index-1a2b3c4d.js").write_bytes(SCRIPT)
    (built / "assets" / "index-1a2b3c4d.js.gz").write_bytes(gzip.compress(SCRIPT))
    (built / "assets" / "index-1a2b3c4d.css").write_text("body{}")
    (built / "assets" / "data.unknown").write_text("?")
    (built / ".sources").write_text("digest")
    (tmp_path / "secret.txt").write_text("secret")
    return built


@pytest.fixture
def app(folder: Path) -> FastAPI:
    return application(folder)


def application(folder: Path) -> FastAPI:
    made = FastAPI()
    errors.install(made)
    pages.install(made)
    made.state.console = BuiltConsole(folder)
    return made


def get(app: FastAPI, path: str, encoding: str | None = None, method: str = "GET") -> Called:
    return call(app, method, path, headers=[("accept-encoding", encoding)] if encoding is not None else ())


def test_the_page(app: FastAPI) -> None:
    answer = get(app, "/")
    assert answer.status == 200
    assert answer.body == PAGE
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"


def test_the_page_may_run_nothing_but_its_own_scripts(app: FastAPI) -> None:
    policy = dict(part.split(" ", 1) for part in get(app, "/").headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["object-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert get(app, "/").headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        (NAME, "text/javascript; charset=utf-8"),
        ("/console/assets/index-1a2b3c4d.css", "text/css; charset=utf-8"),
        ("/console/favicon.svg", "image/svg+xml"),
        ("/console/assets/data.unknown", "application/octet-stream"),
    ],
)
def test_types(app: FastAPI, path: str, media_type: str) -> None:
    answer = get(app, path)
    assert answer.status == 200
    assert answer.headers["content-type"] == media_type


def test_what_has_a_hash_is_kept_for_good_and_the_rest_is_not(app: FastAPI) -> None:
    assert "immutable" in get(app, NAME).headers["cache-control"]
    assert get(app, "/console/favicon.svg").headers["cache-control"] == "no-cache"
    assert get(app, "/console/index.html").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("accept", ["gzip", "deflate, GZIP;q=0.5", "br,gzip , zstd"])
def test_browsers_get_it_compressed(app: FastAPI, accept: str) -> None:
    answer = get(app, NAME, accept)
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "accept-encoding"
    assert int(answer.headers["content-length"]) == len(answer.body) < len(SCRIPT)
    assert gzip.decompress(answer.body) == SCRIPT


@pytest.mark.parametrize("accept", [None, "", "br", "gzip;q=0", "gzip; q=0.000", "identity, xgzip"])
def test_who_does_not_take_gzip_gets_it_plain(app: FastAPI, accept: str | None) -> None:
    answer = get(app, NAME, accept)
    assert "content-encoding" not in answer.headers
    assert answer.body == SCRIPT


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../secret.txt", "assets/../../secret.txt", "/etc/passwd", "//etc/passwd", ".sources",
        "assets", "assets/", "assets/index-1a2b3c4d.js.gz", "index.html/", "\x00", "..\\secret.txt", "no.js",
        "%2e%2e/secret.txt",
    ],
)  # fmt: skip
def test_nothing_but_its_files_can_be_had(app: FastAPI, name: str) -> None:
    answer = get(app, f"/console/{name}")
    assert answer.status == 404
    assert answer.json()["status"] == "failure"
    assert b"secret" not in answer.body


def test_only_reading(app: FastAPI) -> None:
    assert get(app, NAME, method="HEAD").status == 200
    assert get(app, NAME, method="POST").status == 405
    assert get(app, "/", method="DELETE").status == 405


def test_a_console_that_was_not_built(tmp_path: Path) -> None:
    app = application(tmp_path / "nothing")
    answer = get(app, "/")
    assert answer.status == 200
    assert b"make console" in answer.body
    assert b'href="/docs"' in answer.body
    assert get(app, NAME).status == 404


def test_a_console_that_is_built_while_the_gateway_runs(app: FastAPI, folder: Path) -> None:
    assert get(app, NAME).status == 200
    (folder / "assets" / "index-1a2b3c4d.js").unlink()
    (folder / "assets" / "index-1a2b3c4d.js.gz").unlink()
    (folder / "assets" / "index-5e6f7a8b.js").write_bytes(b"new")
    assert get(app, NAME).status == 404, "the file is gone, which the gateway has not heard of"
    (folder / "index.html").write_bytes(PAGE + b"new")
    os.utime(folder / "index.html", ns=(1, 1))  # another time than before, whatever the clock's grain is
    assert get(app, "/").body == PAGE + b"new"
    assert get(app, "/console/assets/index-5e6f7a8b.js").body == b"new"
    (folder / "index.html").unlink()
    assert b"make console" in get(app, "/").body
