"""What the supervisor did: one JSON object a line, numbered without a gap over its lives.

It is the supervisor's part of the cluster log; the other part is what the nodes derive from the metadata log.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

EVENTS_MAX: Final = 2_000
"""Kept, in memory and in the file: about half a megabyte."""


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.events = read_events(path)[-EVENTS_MAX:]
        self._next = self.events[-1]["offset"] + 1 if self.events else 0
        self._lines = 0
        self._rewrite()

    def add(
        self, now_ms: int, kind: str, text: str, *, cause: str | None = None, nodes: tuple[int, ...] = ()
    ) -> dict[str, Any]:
        """In the shape of the nodes' own events."""
        event = {
            "offset": self._next,
            "timestamp_ms": now_ms,
            "kind": kind,
            "text": text,
            "nodes": list(nodes),
        }
        if cause is not None:
            event["cause"] = cause
        self._next += 1
        self.events.append(event)
        if self._lines >= 2 * EVENTS_MAX:
            del self.events[:-EVENTS_MAX]
            self._rewrite()
        else:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line_of(event))
            self._lines += 1
        return event

    def _rewrite(self) -> None:
        """Without what is too old, and without half a line that a crash left."""
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        temporary.write_text("".join(map(line_of, self.events)), encoding="utf-8")
        temporary.replace(self._path)
        self._lines = len(self.events)


def line_of(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False) + "\n"


def read_events(path: Path) -> list[dict[str, Any]]:
    """What is readable of it: a history is no reason not to start."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("offset"), int):
            events.append(event)
    return events
