"""One request of the Kafka protocol to one broker, for what no client library offers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.wire.shapes import Body

CLIENT_ID: Final = "penstock-cli"
CONNECT_S_MAX: Final = 3.0
ANSWER_S_MAX: Final = 10.0


class NoAnswerError(Exception):
    """The broker is not there, or does not answer as one."""


def ask_broker(host: str, port: int, api: tuple[int, int], body: Body) -> Any:
    """The body of the answer; `api` is a key and a version."""
    return asyncio.run(_ask(host, port, api, body))


async def _ask(host: str, port: int, api: tuple[int, int], body: Body) -> Any:
    from penstock.peers.connection import PeerConnection, PeerError
    from penstock.wire.exchange import load_exchange
    from penstock.wire.primitives import DecodeError

    exchange = load_exchange(*api)
    try:
        connection = await PeerConnection.open(host, port, CONNECT_S_MAX)
        try:
            request = exchange.request(1, CLIENT_ID, body)
            return exchange.response(await connection.ask(1, [request], ANSWER_S_MAX))
        finally:
            connection.close("done")
    except (PeerError, DecodeError) as error:
        raise NoAnswerError(f"{host}:{port}: {error}") from error
