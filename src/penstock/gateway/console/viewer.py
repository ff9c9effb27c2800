"""Whether a request comes from the console, which looks at traffic without a car of its own.

`GET /v1/console` gives a cookie that only this process knows. A browser sends it back with what the console's
pages ask, and with nothing that pages of other sites ask. It opens nothing that needs a token.

Browsers keep cookies by the name of the machine alone, whatever the port: so that gateways beside each other
do not take away each other's, the port is part of the name.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import HTTPConnection
    from starlette.responses import Response

COOKIE: Final = "penstock_viewer"


class Viewers:
    """Of one gateway."""

    def __init__(self) -> None:
        self._value = secrets.token_urlsafe(32)

    def welcome(self, connection: HTTPConnection, response: Response) -> None:
        """The answer makes the browser's later requests those of a viewer."""
        response.set_cookie(
            cookie_name(connection),
            self._value,
            secure=connection.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def knows(self, connection: HTTPConnection) -> bool:
        told = [value for name, value in connection.cookies.items() if name.startswith(COOKIE)]
        return any(secrets.compare_digest(value.encode(), self._value.encode()) for value in told)


def cookie_name(connection: HTTPConnection) -> str:
    server = connection.scope.get("server")
    return f"{COOKIE}_{server[1]}" if server is not None and server[1] is not None else COOKIE


def install(app: FastAPI) -> None:
    app.state.viewers = Viewers()


def viewers_of(connection: HTTPConnection) -> Viewers:
    return cast("Viewers", connection.app.state.viewers)


def is_viewer(connection: HTTPConnection) -> bool:
    """Of a request or a WebSocket."""
    return viewers_of(connection).knows(connection)
