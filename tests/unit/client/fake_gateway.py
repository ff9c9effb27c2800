"""The topic-queue endpoints on a dictionary, with faults that a test asks for."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

Answer = tuple[int, dict[str, Any] | bytes]


class FakeGateway:
    def __init__(self) -> None:
        self.topics: dict[str, list[Any]] = {}
        self.owners: dict[int, str] = {}
        self.positions: dict[int, int] = {}
        self.answered: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.connections = 0
        self.faults: deque[Answer | Callable[[Answer], Answer | None]] = deque()
        """For each of the next requests: what is answered in place of it, or what becomes of its answer."""
        self.hangs_up = False
        """Whether connections are closed after each answer, without a word."""
        self.cuts_off = 0
        """How many of the next answers end in their middle."""
        self.says_last = False
        """Whether it tells with each answer that the connection ends with it."""
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, path: str, fields: dict[str, Any], headers: dict[str, str]) -> Answer | None:
        """None: no answer at all."""
        with self._lock:
            self.requests.append((path, fields, headers))
            fault = self.faults.popleft() if self.faults else None
            if isinstance(fault, tuple):
                return fault
            answer = self._serve(path, fields)
        return answer if fault is None else fault(answer)

    def _serve(self, path: str, fields: dict[str, Any]) -> Answer:
        topic = fields.get("topic", "")
        match path:
            case "/topics":
                return 200, {"topics": list(self.topics)}
            case "/producer/register" | "/consumer/register":
                self.topics.setdefault(topic, [])
                number = len(self.owners) + 1
                self.owners[number] = topic
                self.positions[number] = 0
                return 200, {path.split("/")[1] + "_id": number}
            case "/producer/produce":
                return self._produce(fields)
            case "/consumer/consume":
                return self._consume(int(fields["consumer_id"]), topic, fields.get("request_id"))
            case "/size":
                number = int(fields["consumer_id"])
                refusal = self._refusal(number, topic)
                return refusal or (200, {"size": len(self.topics[topic]) - self.positions[number]})
        return 404, {"message": "there is nothing here"}

    def _produce(self, fields: dict[str, Any]) -> Answer:
        topic, request_id = fields["topic"], fields["request_id"]
        if refusal := self._refusal(fields["producer_id"], topic):
            return refusal
        if request_id not in self.answered:
            self.topics[topic].append(fields["message"])
            self.answered[request_id] = {"partition": 0, "offset": len(self.topics[topic]) - 1}
        return 200, self.answered[request_id]

    def _consume(self, number: int, topic: str, request_id: str) -> Answer:
        if refusal := self._refusal(number, topic):
            return refusal
        if request_id in self.answered:
            return 200, self.answered[request_id]
        position = self.positions[number]
        if position == len(self.topics[topic]):
            return 204, b""
        self.positions[number] += 1
        message = self.topics[topic][position]
        fields = message if isinstance(message, dict) else {"message": message}
        self.answered[request_id] = {**fields, "offset": position}
        return 200, self.answered[request_id]

    def _refusal(self, number: int, topic: str) -> Answer | None:
        if number not in self.owners or topic not in self.topics:
            return 404, {"message": f"there is no {number}"}
        if self.owners[number] != topic:
            return 403, {"message": f"{number} is not registered for {topic}"}
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                gateway.connections += 1

            def do_GET(self) -> None:
                self._respond(dict(parse_qsl(urlsplit(self.path).query)))

            def do_POST(self) -> None:
                self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _respond(self, fields: dict[str, Any]) -> None:
                answer = gateway.answer(urlsplit(self.path).path, fields, dict(self.headers))
                if answer is None:
                    self.close_connection = True
                    return
                status, content = answer
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                if gateway.says_last:
                    self.send_header("Connection", "close")
                self.end_headers()
                is_cut_off = gateway.cuts_off > 0
                gateway.cuts_off -= is_cut_off
                if status != 204:
                    self.wfile.write(body[: len(body) // 2] if is_cut_off else body)
                self.close_connection |= gateway.hangs_up or is_cut_off

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Requests are in `requests`."""

        return Handler

    def __enter__(self) -> FakeGateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def lost(_: Answer) -> None:
    """Done, and the answer does not arrive."""
    return
