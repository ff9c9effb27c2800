"""The few names that every part of Penstock shares."""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode

__all__ = ["ApiError", "ErrorCode", "TopicPartition"]


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ApiError(Exception):
    """An expected failure: ends as a Kafka error code in an answer, or as one clear line."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
