"""`/` and `/console/…`: the console as it was built, or a page that says how to build it.

The page may load from nowhere but here; only map tiles, which a user may set, come from elsewhere, as images
and only by HTTPS. Files whose names carry a hash are kept by browsers for good; the page that names them is
asked for each time.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, cast

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from penstock.gateway.console.built import Asset, BuiltConsole

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "worker-src 'self' blob:",  # the map draws in workers that it makes itself
        "style-src 'self' 'unsafe-inline'",  # and places its controls with styles of their own
        "img-src 'self' data: blob: https:",
        "connect-src 'self'",
        "object-src 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
    "vary": "accept-encoding",
}
FOR_GOOD: Final = "public, max-age=31536000, immutable"
ASK_EACH_TIME: Final = "no-cache"
NOT_AT_ALL: Final = re.compile(r"q\s*=\s*0(\.0*)?")
NOT_BUILT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Penstock</title><style>
body { font: 16px/1.6 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem; padding: 0 1rem; }
body { color: #1d2733; background: #fff; } code { font-family: ui-monospace, monospace; }
@media (prefers-color-scheme: dark) { body { color: #d6dde5; background: #12171d; } a { color: #7cb7ff; } }
</style></head>
<body><main><h1>Penstock</h1>
<p>The gateway runs, but its web console was not built. In a checkout of Penstock,
run <code>make console</code> and load this page again.</p>
<p><a href="/docs">The gateway's endpoints</a></p></main></body></html>
"""


def install(app: FastAPI) -> None:
    app.state.console = BuiltConsole()
    app.add_route("/", home, methods=["GET"], include_in_schema=False)
    app.add_route("/console/{name:path}", file, methods=["GET"], include_in_schema=False)


def console_of(request: Request) -> BuiltConsole:
    return cast("BuiltConsole", request.app.state.console)


async def home(request: Request) -> Response:
    index = console_of(request).index()
    if index is None:
        return HTMLResponse(NOT_BUILT, headers=HEADERS | {"cache-control": ASK_EACH_TIME})
    return await answer(request, index)


async def file(request: Request) -> Response:
    asset = console_of(request).find(request.path_params["name"])
    if asset is None:
        raise HTTPException(404)
    return await answer(request, asset)


async def answer(request: Request, asset: Asset) -> Response:
    headers = HEADERS | {"cache-control": FOR_GOOD if asset.immutable else ASK_EACH_TIME}
    path = asset.path
    if asset.compressed is not None and takes_gzip(request.headers.get("accept-encoding", "")):
        path = asset.compressed
        headers["content-encoding"] = "gzip"
    try:
        content = await asyncio.to_thread(path.read_bytes)
    except FileNotFoundError:  # it is being built anew
        raise HTTPException(404) from None
    return Response(content, headers=headers, media_type=asset.media_type)


def takes_gzip(accept: str) -> bool:
    """By an `Accept-Encoding` header."""
    for each in accept.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() == "gzip":
            return not NOT_AT_ALL.fullmatch(weight.strip())
    return False
