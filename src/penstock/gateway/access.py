"""Who may do what: bearer tokens with a level each, and the level that a request needs. Pure."""

from __future__ import annotations

import hashlib
from enum import IntEnum
from pathlib import Path
from typing import Final

TOKEN_LENGTH_MIN: Final = 16
OPEN_PATHS: Final = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/v1/console"})
"""What probes ask and what a browser loads before it can say who asks. Nothing in them is secret."""
OPEN_FOLDER: Final = "/console/"
"""Where the files of the console are."""
ADMIN_PATHS: Final = frozenset({"/v1/cluster/kill"})
JOBS_FOLDER: Final = "/v1/flights/jobs/"
"""What is deleted there is a client's own, and whoever writes may do so."""
READING_POSTS: Final = frozenset({"/consumer/register"})
"""As long as they create nothing: a topic that is missing takes a token for write."""


class Level(IntEnum):
    OPEN = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


class TokenFileError(Exception):
    """The file can not be used; the message says where and why."""


class Tokens:
    """Digests of tokens, so that how long a comparison takes says nothing about a token."""

    def __init__(self, levels: dict[str, Level]) -> None:
        self._levels = {digest(token.encode()): level for token, level in levels.items()}

    def level(self, authorization: bytes | None) -> Level | None:
        """Of an `Authorization` header; OPEN without one, None for a token that nobody has."""
        if authorization is None:
            return Level.OPEN
        scheme, _, token = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        return self._levels.get(digest(token.strip()))


def digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def read_tokens(path: Path) -> Tokens:
    """Lines of a level and a token; empty ones and those that begin with `#` are passed over."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise TokenFileError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise TokenFileError(f"{path}: {error.strerror or error}") from None
    levels: dict[str, Level] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or words[0] not in ("read", "write", "admin"):
            raise TokenFileError(f"{path}, line {number}: not of the form `read|write|admin TOKEN`")
        if len(words[1]) < TOKEN_LENGTH_MIN:
            raise TokenFileError(f"{path}, line {number}: a token has at least {TOKEN_LENGTH_MIN} characters")
        levels[words[1]] = Level[words[0].upper()]
    if not levels:
        raise TokenFileError(f"{path} has no token")
    return Tokens(levels)


def needed(kind: str, method: str, path: str) -> Level:
    """The level that a request needs; `kind` is ASGI's, `http` or `websocket`."""
    if path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
        return Level.OPEN
    if kind == "websocket":
        return Level.WRITE if path.endswith("/produce") else Level.READ
    if path.startswith(JOBS_FOLDER) and method == "DELETE":
        return Level.WRITE
    if path in ADMIN_PATHS or method in ("DELETE", "PATCH"):
        return Level.ADMIN
    if method in ("GET", "HEAD") or path in READING_POSTS:
        return Level.READ
    return Level.WRITE
