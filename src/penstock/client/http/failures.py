"""What a gateway answers: the whole of it, and its refusals as the library's errors."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any, Final

from penstock.client.errors import (
    DisconnectedServerError,
    InvalidTopicError,
    MessageTooLargeError,
    NotAuthorizedError,
    PenstockError,
    ServerError,
    TopicNotFoundError,
)

Refusals = Mapping[int, type[PenstockError]]

ALL: Final[Refusals] = {
    401: NotAuthorizedError,
    403: NotAuthorizedError,
    404: TopicNotFoundError,
    413: MessageTooLargeError,
    429: DisconnectedServerError,
    502: DisconnectedServerError,
    503: DisconnectedServerError,
    504: DisconnectedServerError,
}
REGISTER: Final[Refusals] = {**ALL, 400: InvalidTopicError}


class Refused(Exception):  # noqa: N818 - it is an answer
    """An answer that is an error."""

    def __init__(self, status: int, fields: Mapping[str, Any]) -> None:
        super().__init__(status, fields)
        self.status = status
        self.message = str(fields.get("message") or f"HTTP status {status}")

    def as_error(self, what: str, kinds: Refusals = ALL) -> PenstockError:
        return kinds.get(self.status, ServerError)(f"{what}: {self.message}")


def not_understood(problem: str) -> ServerError:
    return ServerError(f"{problem}: is it a Penstock gateway?")


def whole_answer(response: http.client.HTTPResponse, bytes_max: int) -> bytes:
    """Its body; IncompleteRead if it ends in its middle. Asked for a number, `read` alone does not tell."""
    content = response.read(bytes_max)
    if response.length and len(content) < bytes_max:
        raise http.client.IncompleteRead(content, response.length)
    return content
