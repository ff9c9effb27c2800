"""An HTTP/1.1 client for load: one connection, kept alive, one request at a time, JSON in and out.

httpx takes a millisecond of CPU for each request; with 64 clients on half a machine, that would be the load.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson


class Answer:
    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body

    def json(self) -> Any:
        return orjson.loads(self.body)


class LightClient:
    """Raises OSError when there is no answer; whether the request was carried out is then not known."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, parameters: dict[str, Any]) -> Answer:
        return await self._ask(f"GET {path}?{urlencode(parameters)}", b"")

    async def post(self, path: str, body: Any) -> Answer:
        return await self._ask(f"POST {path}", orjson.dumps(body))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, line: str, body: bytes) -> Answer:
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._host, self._port)
            reader, writer = self._streams
            head = (
                f"{line} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            return await read_answer(reader)
        except BaseException:
            self.close()
            raise


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return Answer(int(head.split(b" ", 2)[1]), await reader.readexactly(length))
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("the connection was closed") from error
