"""Asking the node, or the supervisor, for what the Kafka protocol does not tell."""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.error
import urllib.request
from typing import Any, Final

from penstock.gateway.errors import ApiFailure

SECONDS_MAX: Final = 3.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
NOT_PENSTOCK: Final = "not available: the gateway was not told where the cluster's admin endpoint is"


class AdminEndpoint:
    def __init__(self, url: str | None) -> None:
        self._url = url.rstrip("/") if url else None

    @property
    def url(self) -> str | None:
        return self._url

    async def ask(self, path: str) -> dict[str, Any]:
        """The JSON object behind `path`; ApiFailure with 503 if there is none."""
        try:
            told = json.loads(await self.read(path))
        except ValueError as error:
            raise self._failure(error) from error
        if not isinstance(told, dict):
            raise self._failure("it is not an admin endpoint")
        return told

    async def read(self, path: str) -> bytes:
        """What is behind `path`, likewise."""
        if self._url is None:
            raise ApiFailure(503, NOT_PENSTOCK)
        try:
            return await asyncio.to_thread(self._read, self._url + path)
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(getattr(error, "reason", None) or error) from error

    @staticmethod
    def _failure(reason: object) -> ApiFailure:
        return ApiFailure(503, f"not available: the cluster's admin endpoint fails: {reason}")

    @staticmethod
    def _read(url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=SECONDS_MAX) as response:  # noqa: S310 - from our own option
            content: bytes = response.read(ANSWER_BYTES_MAX)
        return content
