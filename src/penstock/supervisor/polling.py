"""Asking the nodes how they are, ahead of whoever asks the supervisor.

The supervisor's endpoint answers at once from what was heard last. Nodes are asked every second, more often
while somebody looks, and never so often that asking would take more than a small share of the time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

IDLE_S: Final = 1.0
WATCHED_S: Final = 0.25
WATCHED_FOR_S: Final = 5.0
SHARE_MAX: Final = 0.05
"""Of the time, for asking: a cluster of very many partitions is asked less often."""
ANSWER_S_MAX: Final = 1.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
PAUSE_S_MAX: Final = 10.0
EVENTS_MAX: Final = 10_000


class NoAnswerError(Exception):
    """A node did not answer, or not as it should."""


class Poller:
    def __init__(self, cluster_id: str, endpoints: Callable[[], Mapping[int, str]]) -> None:
        """`endpoints`: the admin endpoints of nodes that serve, by their ids."""
        self.answers: dict[int, dict[str, Any]] = {}
        self.silent: frozenset[int] = frozenset()
        """Nodes that were asked and did not answer."""
        self.events: list[dict[str, Any]] = []
        self._cluster_id = cluster_id
        self._endpoints = endpoints
        self._watched_until = 0.0
        self.took_s = 0.0
        """Until the slowest of those had answered that did: waiting for one that does not is no work."""
        self._look = asyncio.Event()

    def watched(self) -> None:
        """Somebody looks."""
        loop = asyncio.get_running_loop()
        self._watched_until = loop.time() + WATCHED_FOR_S
        self._look.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._look.clear()
            await self.refresh()
            await asyncio.sleep(max(WATCHED_S, min(self.took_s / SHARE_MAX, PAUSE_S_MAX)))
            if loop.time() >= self._watched_until:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._look.wait(), IDLE_S - WATCHED_S)

    async def refresh(self) -> None:
        endpoints = dict(self._endpoints())
        self.took_s = 0.0
        told = await asyncio.gather(*(self._ask_status(endpoint) for endpoint in endpoints.values()))
        self.answers = {
            node_id: answer for node_id, answer in zip(endpoints, told, strict=True) if answer is not None
        }
        self.silent = frozenset(endpoints.keys() - self.answers.keys())
        for node_id in self._best_informed():
            if await self._ask_events(endpoints[node_id]):
                return

    @property
    def _last_offset(self) -> int:
        return int(self.events[-1]["offset"]) if self.events else -1

    def _best_informed(self) -> list[int]:
        """Those that answered, the active controller first."""
        return sorted(self.answers, key=lambda node_id: self.answers[node_id].get("controller") != node_id)

    async def _ask_status(self, endpoint: str) -> dict[str, Any] | None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            answer = await get_json(endpoint, "/v1/cluster")
        except NoAnswerError:
            return None
        self.took_s = max(self.took_s, loop.time() - start)
        return answer if answer.get("cluster_id") == self._cluster_id else None

    async def _ask_events(self, endpoint: str) -> bool:
        try:
            answer = await get_json(endpoint, f"/v1/cluster/log?after={self._last_offset}")
        except NoAnswerError:
            return False
        last = self._last_offset
        self.events += [
            event for event in answer.get("events", []) if is_event(event) and event["offset"] > last
        ]
        del self.events[:-EVENTS_MAX]
        return True


def is_event(value: Any) -> bool:
    """What is not one would trouble every reader of the log."""
    return isinstance(value, dict) and all(
        isinstance(value.get(name), kind)
        for name, kind in (("offset", int), ("timestamp_ms", int), ("kind", str), ("text", str))
    )


async def get_json(endpoint: str, path: str) -> dict[str, Any]:
    """The JSON object that a node answers with; NoAnswerError otherwise."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            status, body = await get(endpoint, path)
        value = json.loads(body)
    except (OSError, TimeoutError, ValueError) as error:
        raise NoAnswerError(f"{endpoint}{path}: {error}") from error
    if status != "200" or not isinstance(value, dict):
        raise NoAnswerError(f"{endpoint}{path}: {status}")
    return value


async def get(endpoint: str, path: str) -> tuple[str, bytes]:
    """Status and body. Asked to close the connection, the node marks the end of its answer that way."""
    address = urlsplit(endpoint)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: {address.netloc}\r\nconnection: close\r\n\r\n".encode())
        answer = bytearray()
        while chunk := await reader.read(65_536):
            answer += chunk
            if len(answer) > ANSWER_BYTES_MAX:
                raise ValueError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
    finally:
        writer.close()
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    first_line = head.partition(b"\r\n")[0].decode("ascii", "replace").split(" ")
    if len(first_line) < 2:
        raise ValueError("not an answer of HTTP")
    return first_line[1], body
