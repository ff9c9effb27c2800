"""The one JSON object a load generator is given, and the one it prints."""

from __future__ import annotations

import json
import sys
from typing import Any


def arguments() -> dict[str, Any]:
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def result(**figures: Any) -> None:
    print(json.dumps(figures))


def payload(size: int) -> bytes:
    """The same bytes every time; nothing here compresses, so their content does not matter."""
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]
