"""Clients of the topic queue over HTTP that never give up: they repeat a request until it is answered.

What they were told is written down, and `check` compares it: every acknowledged message reached each consumer
exactly once, in the order of the log.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.support.light_http import Answer, LightClient

RETRY_SECONDS = 0.05
RETRIED = (500, 502, 503, 504)


@dataclass
class History:
    produced: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By topic: offset and message of what was acknowledged."""
    consumed: dict[tuple[str, int], list[tuple[int, str]]] = field(default_factory=dict)
    """By topic and consumer: what was got, in that order."""
    retries: int = 0

    def check(self) -> None:
        for (topic, consumer), got in self.consumed.items():
            offsets = [offset for offset, _ in got]
            assert offsets == sorted(set(offsets)), f"consumer {consumer} of {topic}: not in order, or twice"
            messages = [message for _, message in got]
            assert len(messages) == len(set(messages)), f"consumer {consumer} of {topic}: a message twice"
            assert got == sorted(self.produced[topic]), f"consumer {consumer} of {topic}: lost or invented"


class Client:
    """One connection, to one gateway after the other."""

    def __init__(self, urls: list[str], history: History) -> None:
        self._gateways = itertools.cycle([LightClient(url) for url in urls])
        self._gateway = next(self._gateways)
        self.history = history

    async def insist(self, request: Callable[[LightClient], Awaitable[Answer]]) -> Answer:
        """The first answer that says something about the request, from whichever gateway gives it."""
        while True:
            try:
                answer = await request(self._gateway)
            except OSError:
                pass
            else:
                if answer.status not in RETRIED:
                    return answer
            self.history.retries += 1
            self._gateway.close()
            self._gateway = next(self._gateways)
            await asyncio.sleep(RETRY_SECONDS)

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self.insist(lambda gateway: gateway.post(path, body))
        assert answer.status == 200, answer.body
        return dict(answer.json())

    async def register(self, kind: str, topic: str) -> int:
        return int((await self.post(f"/{kind}/register", {"topic": topic}))[f"{kind}_id"])

    def close(self) -> None:
        self._gateway.close()


async def produce(client: Client, topic: str, until: asyncio.Event) -> None:
    producer = await client.register("producer", topic)
    for number in itertools.count():
        if until.is_set():
            return
        message = f"{producer}-{number}"
        body = {"topic": topic, "producer_id": producer, "message": message, "request_id": str(number)}
        answer = await client.post("/producer/produce", body)
        client.history.produced.setdefault(topic, []).append((answer["offset"], message))


async def consume(client: Client, topic: str, producers_done: asyncio.Event) -> None:
    consumer = await client.register("consumer", topic)
    got = client.history.consumed.setdefault((topic, consumer), [])
    for number in itertools.count():
        nothing_comes_any_more = producers_done.is_set()
        parameters = {"topic": topic, "consumer_id": consumer, "request_id": f"{consumer}-{number}"}
        answer = await client.insist(
            partial(LightClient.get, path="/consumer/consume", parameters=parameters)
        )
        if answer.status == 204:
            if nothing_comes_any_more:
                return
            await asyncio.sleep(RETRY_SECONDS)
            continue
        assert answer.status == 200, answer.body
        body = answer.json()
        got.append((body["offset"], body["message"]))


async def run_load(
    urls: list[str], topics: list[str], *, producers: int, consumers: int, until: asyncio.Event
) -> History:
    """Load on all topics until the event; ends when the consumers have got everything."""
    history = History()
    done = asyncio.Event()
    clients = [Client(urls, history) for _ in range(producers + consumers)]
    try:
        async with asyncio.TaskGroup() as reading:
            for i, client in enumerate(clients[producers:]):
                reading.create_task(consume(client, topics[i % len(topics)], done))
            async with asyncio.TaskGroup() as writing:
                for i, client in enumerate(clients[:producers]):
                    writing.create_task(produce(client, topics[i % len(topics)], until))
            done.set()
    finally:
        for client in clients:
            client.close()
    return history
