"""Requests of the Kafka protocol for what no client library offers: to one broker, or to the cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.output import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata

    from penstock.wire.shapes import Body

CLIENT_ID: Final = "penstock-cli"
CONNECT_S_MAX: Final = 3.0
ANSWER_S_MAX: Final = 10.0


class NoAnswerError(Exception):
    """The broker is not there, or does not answer as one."""


def ask_broker(host: str, port: int, api: tuple[int, int], body: Body) -> Any:
    """The body of the answer; `api` is a key and a version."""
    return asyncio.run(_ask(host, port, api, body))


def ask_cluster(metadata: ClusterMetadata, api: tuple[int, int], body: Body) -> Any:
    """The answer of the first broker that gives one.

    For requests that any broker passes on to the controller. The broker that clients are told is the
    controller comes first: an old Kafka carries them out nowhere else.
    """
    reason = "no broker of the cluster is running"
    brokers: list[Any] = list(metadata.brokers.values())
    for broker in sorted(brokers, key=lambda each: each.id != metadata.controller_id):
        try:
            return ask_broker(broker.host, broker.port, api, body)
        except NoAnswerError as error:
            reason = str(error)
    raise CommandFailed(reason)


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
