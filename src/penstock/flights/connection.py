"""One connection to a gateway, kept open, for one thread at a time.

Sending and receiving are two steps, so that several requests can be on their way; answers come in the order
of the requests. Whatever goes wrong is an OSError, and the next request opens the connection anew; whether
the requests without an answer were carried out is then not known.

The standard library's client wants an answer before it sends the next request, so only its connecting and its
reading of answers are used.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import SplitResult, urlsplit

from penstock.client.http.failures import not_understood, whole_answer

CONNECT_S_MAX: Final = 5.0
ANSWER_S_MAX: Final = 30.0
"""For one answer; a gateway whose cluster is away says so before."""
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
READ_BYTES: Final = 1024 * 1024
KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A stream may be silent for hours. That the other machine is gone is for TCP to find out."""

JSON: Final = "application/json"
CSV: Final = "text/csv"


class Answer(NamedTuple):
    status: int
    fields: Mapping[str, Any]
    retry_after_s: float | None = None

    @property
    def message(self) -> str:
        return str(self.fields.get("message") or f"HTTP status {self.status}")

    def number(self, name: str) -> int | None:
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


class Address:
    """Where a gateway is, and who asks."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.parts = _split(url)
        host = self.parts.netloc.rpartition("@")[2]
        self.headers = {"Host": host, "Accept": "*/*", "User-Agent": "penstock-flights"}
        if token:
            if re.fullmatch("[!-~]+", token) is None:
                raise ValueError("a token is made of printable ASCII without blanks")
            self.headers["Authorization"] = f"Bearer {token}"

    def open(self) -> socket.socket:
        kind = http.client.HTTPSConnection if self.parts.scheme == "https" else http.client.HTTPConnection
        assert self.parts.hostname is not None
        connection = kind(self.parts.hostname, self.parts.port, timeout=CONNECT_S_MAX)
        connection.connect()  # sets TCP_NODELAY too
        opened: socket.socket = connection.sock
        opened.settimeout(ANSWER_S_MAX)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            if hasattr(socket, name):  # not on every system
                opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return opened

    def head(self, method: str, target: str, body: bytes | None, kind: str) -> bytes:
        headers = dict(self.headers)
        if body is not None:
            headers |= {"Content-Type": kind, "Content-Length": str(len(body))}
        lines = [
            f"{method} {self.parts.path}{target} HTTP/1.1",
            *(f"{name}: {v}" for name, v in headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


class AnswerReader(io.BufferedReader):
    """What the gateway sends, for one answer after the other."""

    def __init__(self, opened: socket.socket) -> None:
        self._raw = opened.makefile("rb", buffering=0)
        super().__init__(self._raw, READ_BYTES)

    def makefile(self, _mode: str) -> AnswerReader:
        """An HTTPResponse takes it for a socket."""
        return self

    def close(self) -> None:
        """An HTTPResponse that is read to its end closes its file; but here the next answer follows."""

    def flush(self) -> None:
        """An HTTPResponse does this when it is collected, which may be after `close_for_good`."""

    def close_for_good(self) -> None:
        self._raw.close()


class Connection:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._reader: AnswerReader | None = None

    def ask(self, method: str, target: str, body: bytes | None = None, kind: str = JSON) -> Answer:
        self.send(method, target, body, kind)
        return self.receive()

    def send(self, method: str, target: str, body: bytes | None = None, kind: str = JSON) -> None:
        with self._closed_by_failures():
            if self._socket is None:
                self._socket = self._address.open()
                self._reader = AnswerReader(self._socket)
            # The gateway may refuse before it has read everything: then the answer that follows says why.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._socket.sendall(self._address.head(method, target, body, kind))
                if body is not None:
                    self._socket.sendall(body)

    def receive(self) -> Answer:
        """To the first request that has none yet."""
        with self._closed_by_failures():
            return self._read(self._begin())

    def stream(self, target: str) -> Iterator[bytes] | Answer:
        """What comes, as it comes; an Answer if it is refused. The connection is used up by it."""
        with self._closed_by_failures():
            self.send("GET", target)
            assert self._socket is not None
            response = self._begin()
            if response.status != http.client.OK:
                return self._read(response)
            self._socket.settimeout(None)
            return self._blocks(response)

    def _begin(self) -> http.client.HTTPResponse:
        assert self._reader is not None, "nothing was sent"
        response = http.client.HTTPResponse(cast("socket.socket", self._reader))
        response.begin()
        return response

    def _read(self, response: http.client.HTTPResponse) -> Answer:
        content = whole_answer(response, ANSWER_BYTES_MAX)
        if not response.isclosed() or response.will_close:
            self.close()
        return Answer(response.status, _fields(response, content), _retry_after_s(response))

    def _blocks(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        with self._closed_by_failures():
            while block := response.read1(READ_BYTES):
                yield block
            self.close()

    @property
    def is_open(self) -> bool:
        """Otherwise requests without an answer will get none: the last answer may have said so."""
        return self._socket is not None

    def interrupt(self) -> None:
        """From another thread: whoever reads from it gets an OSError, or the end."""
        if (opened := self._socket) is not None:
            with contextlib.suppress(OSError):  # it is closed already
                opened.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        opened, self._socket = self._socket, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close_for_good()
        if opened is not None:
            opened.close()

    @contextlib.contextmanager
    def _closed_by_failures(self) -> Iterator[None]:
        try:
            yield
        except http.client.HTTPException as error:
            self.close()
            raise ConnectionError(str(error) or type(error).__name__) from error
        except BaseException:
            self.close()
            raise


def _fields(response: http.client.HTTPResponse, content: bytes) -> Mapping[str, Any]:
    if not content and response.status == http.client.NO_CONTENT:
        return {}
    try:
        fields = json.loads(content)
    except ValueError as error:
        if response.status >= http.client.BAD_REQUEST:
            return {}  # from something in between that is no gateway; its status says enough
        raise not_understood("an answer is not JSON") from error
    if not isinstance(fields, dict):
        raise not_understood("an answer is not a JSON object")
    return fields


def _retry_after_s(response: http.client.HTTPResponse) -> float | None:
    """Seconds only: no gateway tells a date."""
    text = response.headers.get("Retry-After", "")
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) else None


def _split(url: str) -> SplitResult:
    parts = urlsplit(url.rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not an address of the form http://HOST:PORT")
    if parts.port == 0:  # a port that is no number raises ValueError by itself
        raise ValueError(f"{url!r} has no port that can be used")
    return parts
