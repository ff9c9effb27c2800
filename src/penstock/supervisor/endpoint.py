"""The supervisor's HTTP endpoint: health, the state of the cluster, and the cluster log; to be read only."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from penstock.broker.http import HttpError, HttpServer, Request, Response, json_response, text_response
from penstock.supervisor.view import Cursor

HOME: Final = """\
This is the endpoint of a Penstock cluster on one machine. Kafka clients connect to the brokers' ports.

/healthz          the supervisor is alive
/readyz           all nodes serve
/v1/cluster       nodes, topics and partitions, as JSON
/v1/cluster/log   elections, in-sync changes, restarts, as JSON; /v1/cluster/log/N.M only what came after that
"""
LOG: Final = "/v1/cluster/log"


class Endpoint:
    """`status`, `log` and `not_running` are asked when a request comes."""

    def __init__(
        self,
        status: Callable[[], dict[str, Any]],
        log: Callable[[Cursor], dict[str, Any]],
        not_running: Callable[[], dict[str, str]],
    ) -> None:
        self._status = status
        self._log = log
        self._not_running = not_running
        self._server = HttpServer(self.answer)

    async def listen(self, listening: socket.socket) -> None:
        await self._server.listen(listening)

    async def close(self) -> None:
        await self._server.close()

    def answer(self, request: Request) -> Response:
        match request.path:
            case "/":
                return text_response(HOME)
            case "/healthz":
                return json_response({"status": "success"})
            case "/readyz":
                return self._readiness()
            case "/v1/cluster":
                return json_response(self._status())
            case path if path == LOG or path.startswith(f"{LOG}/"):
                return json_response(self._log(read_cursor(path.removeprefix(LOG).removeprefix("/"))))
            case _:
                raise HttpError(HTTPStatus.NOT_FOUND, "there is nothing here; GET / lists what is")

    def _readiness(self) -> Response:
        missing = self._not_running()
        if not missing:
            return json_response({"status": "success"})
        listed = ", ".join(f"{label} is {phase}" for label, phase in sorted(missing.items()))
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"not all nodes serve: {listed}")


def read_cursor(text: str) -> Cursor:
    try:
        return Cursor.parse(text) if text else Cursor()
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"where to go on: {error}") from error
