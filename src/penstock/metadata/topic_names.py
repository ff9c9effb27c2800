"""Which names a topic may have. The rules are Kafka's, so that names stay valid when data moves to it."""

from __future__ import annotations

import re

from penstock.types import ApiError, ErrorCode

NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def problem_with(name: str) -> str | None:
    """Why a topic may not have this name; None if it may."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name[:50]}…' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    problem = problem_with(name)
    if problem is not None:
        raise ApiError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {problem}")


def collision_key(name: str) -> str:
    """Metrics systems take '.' for '_': two topics with the same key would be one to them."""
    return name.replace(".", "_")
