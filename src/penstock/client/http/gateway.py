"""Requests to a gateway that may be killed and started again at any time.

A request whose answer was lost is sent again, until there is an answer or the client's time limit is over. So
every request must be one that can be repeated: those that move something carry a `request_id`, by which the
gateway knows the second try, and registering once more is harmless.

Connections are kept open and used by one thread at a time. The gateway may close one that was idle, which
shows only when it is used again: such a failure is tried again at once, on another connection.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlencode, urlsplit

from penstock.client.errors import DisconnectedServerError
from penstock.client.http.failures import Refused, not_understood, whole_answer

TRY_S_MAX: Final = 10.0
"""For how long one answer is waited for before the request is sent again."""
TRY_S_MIN: Final = 0.01
FIRST_PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 1.0
ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
IDLE_CONNECTIONS_MAX: Final = 32

OK: Final = 200
NO_CONTENT: Final = 204
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
GONE: Final = 410
BUSY: Final = frozenset({429, 502, 503, 504})
"""What passes: too many requests, a cluster that elects a leader, a proxy whose gateway restarts."""


class Answer(NamedTuple):
    status: int
    fields: Mapping[str, Any]

    def text(self, name: str) -> str:
        return str(self._field(name, str))

    def number(self, name: str) -> int:
        return int(self._field(name, int))

    def _field(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise not_understood(f"an answer has no {name!r}")
        return value


class Gateway:
    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self._parts = _split(url)
        self._headers = {"Accept": "application/json", "User-Agent": "penstock-client"}
        if token is not None:
            if re.fullmatch("[!-~]+", token) is None:
                raise ValueError("a token is made of printable ASCII without blanks")
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def get(self, path: str, what: str, **query: str | int) -> Answer:
        """Refused, or DisconnectedServerError when the time limit is over."""
        return self._call("GET", f"{path}?{urlencode(query)}" if query else path, None, what)

    def post(self, path: str, what: str, **fields: str | int) -> Answer:
        return self._call("POST", path, json.dumps(fields).encode(), what)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _call(self, method: str, target: str, body: bytes | None, what: str) -> Answer:
        deadline = time.monotonic() + self.timeout_s
        pause_s = FIRST_PAUSE_S
        while True:
            connection, used_before = self._connection()
            try:
                answer = self._try(connection, method, target, body, deadline)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if used_before and time.monotonic() < deadline:
                    continue
                failure: Exception = error
                reason = str(error) or type(error).__name__
            else:
                if answer.status in (OK, NO_CONTENT):
                    return answer
                failure = refused = Refused(answer.status, answer.fields)
                reason = refused.message
                if answer.status not in BUSY:
                    raise refused
            if time.monotonic() + pause_s >= deadline:
                raise DisconnectedServerError(
                    f"{what}: no answer from {self.url} for {self.timeout_s:g} s: {reason}"
                ) from failure
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _try(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        deadline: float,
    ) -> Answer:
        limit_s = max(TRY_S_MIN, min(TRY_S_MAX, deadline - time.monotonic()))
        connection.timeout = limit_s
        if connection.sock is None:
            connection.connect()
        else:
            connection.sock.settimeout(limit_s)
        kind = {} if body is None else {"Content-Type": "application/json"}
        # The gateway may refuse before it has read everything: then the answer that follows says why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, self._parts.path + target, body, {**self._headers, **kind})
        # An answer that is the last of its connection keeps the socket open until it is closed itself.
        with connection.getresponse() as response:
            content = whole_answer(response, ANSWER_BYTES_MAX)
            is_read = response.isclosed()
        if is_read and not response.will_close:
            self._give_back(connection)
        else:
            connection.close()
        return Answer(response.status, _fields(response.status, content))

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        """A connection for this thread alone, and whether it was used before."""
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        assert self._parts.hostname is not None
        return kind(self._parts.hostname, self._parts.port), False

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
        connection.close()


def _fields(status: int, content: bytes) -> Mapping[str, Any]:
    if status == NO_CONTENT:
        return {}
    try:
        fields = json.loads(content)
    except ValueError as error:
        if status != OK:
            return {}  # from something in between that is no gateway; its status says enough
        raise not_understood("an answer is not JSON") from error
    if not isinstance(fields, dict):
        raise not_understood("an answer is not a JSON object")
    return fields


def _split(url: str) -> SplitResult:
    parts = urlsplit(url.rstrip("/"))
    if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"broker {url!r} is not of the form http://HOST:PORT")
    if parts.port == 0:  # a port that is no number raises ValueError by itself
        raise ValueError(f"broker {url!r} has no port that can be used")
    return parts
