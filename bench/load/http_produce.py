"""HTTP producers, a connection each: the next message when the last is acknowledged. Prints what was done.

Each client is a bare protocol on uvloop that knows no more HTTP than it needs: the servers are to be
measured.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from typing import Any

import uvloop

from bench.load.arguments import arguments, payload, result

END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"content-length:"
WARM_UP_SECONDS = 0.5


class Client(asyncio.Protocol):
    def __init__(self, request: bytes, done: asyncio.Future[None]) -> None:
        self._request = request
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self.answers = 0
        self.is_stopping = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(END_OF_HEAD)
        if not found or len(body) < length_of(head):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self._done.set_exception(RuntimeError(self._received.decode(errors="replace")))
            return
        self._received = b""
        self.answers += 1
        assert self._transport is not None
        if not self.is_stopping:
            self._transport.write(self._request)
        elif not self._done.done():
            self._done.set_result(None)
            self._transport.close()


def length_of(head: bytes) -> int:
    at = head.lower().index(LENGTH) + len(LENGTH)
    return int(head[at:].split(b"\r\n", 1)[0])


def register(url: str, topic: str) -> int:
    body = json.dumps({"topic": topic}).encode()
    request = urllib.request.Request(
        f"{url}/producer/register", body, {"content-type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["producer_id"])


def request_of(host: str, topic: str, producer: int, message: str) -> bytes:
    body = json.dumps({"topic": topic, "producer_id": producer, "message": message}).encode()
    head = (
        f"POST /producer/produce HTTP/1.1\r\nhost: {host}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def run(given: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    message = payload(given["size"]).decode()
    host, port = given["host"], given["port"]
    clients: list[tuple[Client, asyncio.Future[None]]] = []
    for i in range(given["connections"]):
        topic = f"{given['topic']}-{i % given['topics']}"
        request = request_of(host, topic, register(f"http://{host}:{port}", topic), message)
        done: asyncio.Future[None] = loop.create_future()
        _, client = await loop.create_connection(lambda r=request, d=done: Client(r, d), host, port)
        clients.append((client, done))
    await asyncio.sleep(WARM_UP_SECONDS)
    before, began = sum(client.answers for client, _ in clients), time.perf_counter()
    await asyncio.sleep(given["seconds"])
    after, seconds = sum(client.answers for client, _ in clients), time.perf_counter() - began
    for client, _ in clients:
        client.is_stopping = True
    await asyncio.gather(*(done for _, done in clients))
    result(messages=after - before, seconds=seconds)


if __name__ == "__main__":
    uvloop.run(run(arguments()))
