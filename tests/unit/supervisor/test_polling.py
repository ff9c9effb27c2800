from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker.http import HttpServer, Request, Response, json_response
from penstock.listening import bind
from penstock.supervisor import polling
from penstock.supervisor.polling import NoAnswerError, Poller, get_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def event(offset: int) -> dict[str, Any]:
    return {"offset": offset, "timestamp_ms": 0, "kind": "k", "text": str(offset)}


class Node:
    def __init__(self, node_id: int, controller: int | None = 1, cluster_id: str = "abc") -> None:
        self.id = node_id
        self.controller = controller
        self.cluster_id = cluster_id
        self.events: list[Any] = []
        self.asked = asyncio.Event()

    def answer(self, request: Request) -> Response:
        if request.path == "/v1/cluster/log":
            self.asked.set()
            return json_response({"events": self.events})
        return json_response({"cluster_id": self.cluster_id, "controller": self.controller, "from": self.id})


@asynccontextmanager
async def serving(*nodes: Node) -> AsyncIterator[dict[int, str]]:
    servers, endpoints = [], {}
    for node in nodes:
        listening = bind("127.0.0.1", 0)
        endpoints[node.id] = f"http://127.0.0.1:{listening.getsockname()[1]}"
        servers.append(HttpServer(node.answer))
        await servers[-1].listen(listening)
    try:
        yield endpoints
    finally:
        for server in servers:
            await server.close()


def test_what_nodes_answer_is_kept() -> None:
    async def run() -> None:
        nodes = Node(1), Node(2)
        async with serving(*nodes) as endpoints:
            poller = Poller("abc", lambda: endpoints)
            await poller.refresh()
            assert {node_id: answer["from"] for node_id, answer in poller.answers.items()} == {1: 1, 2: 2}
            endpoints.pop(1)
            await poller.refresh()
            assert list(poller.answers) == [2], "who is gone is forgotten"

    asyncio.run(run())


def test_who_does_not_answer_or_is_a_stranger_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "ANSWER_S_MAX", 0.2)

    async def run() -> None:
        # Connections to it are made by the system, and nobody takes them: so it is with a paused process.
        silent = bind("127.0.0.1", 0)
        async with serving(Node(1), Node(2, cluster_id="other")) as endpoints:
            endpoints[3] = f"http://127.0.0.1:{silent.getsockname()[1]}"
            endpoints[4] = "http://127.0.0.1:1"
            poller = Poller("abc", lambda: endpoints)
            await poller.refresh()
            assert list(poller.answers) == [1]
            assert poller.silent == {2, 3, 4}
            assert 0 < poller.took_s < 0.9, "waiting for it is no reason to ask the others less often"
            with pytest.raises(NoAnswerError):
                await get_json(endpoints[3], "/v1/cluster")
        silent.close()

    asyncio.run(run())


def test_the_log_is_read_on_from_whoever_answers() -> None:
    async def run() -> None:
        one, two = Node(1, controller=2), Node(2, controller=2)
        one.events = [event(1)]
        two.events = [event(1), event(2), {"offset": "strange"}, 7]
        async with serving(one, two) as endpoints:
            poller = Poller("abc", lambda: endpoints)
            await poller.refresh()
            assert [each["offset"] for each in poller.events] == [1, 2], "asked of the controller"
            endpoints.pop(2)
            one.events += [event(2), event(3), event(3)]
            await poller.refresh()
            assert [each["offset"] for each in poller.events] == [1, 2, 3, 3]

    asyncio.run(run())


def test_somebody_who_looks_hastens_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "IDLE_S", 1_000.0)
    monkeypatch.setattr(polling, "WATCHED_S", 0.01)

    async def run() -> None:
        node = Node(1)
        async with serving(node) as endpoints:
            poller = Poller("abc", lambda: endpoints)
            task = asyncio.create_task(poller.run())
            async with asyncio.timeout(10):
                await node.asked.wait()
                node.asked.clear()
                poller.watched()
                await node.asked.wait()
            task.cancel()

    asyncio.run(run())
