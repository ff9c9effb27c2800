"""Logs of this node that are damaged and cannot be mended in place, written down until they are filled anew.

To be filled anew from the others, a replica has to leave the in-sync set first, and nothing that it said
before may count afterwards. A replica that is out of service does that (partitions.py), and so does a start
(lost_replicas.py); then log_opening.py sets the log aside.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.storage import Storage

NOTE: Final = "damaged-logs"


class DamagedLogs:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._noted: dict[str, list[str]] = storage.get_note(NOTE) or {}
        self._lock = threading.Lock()  # logs are opened several at a time

    def maybe_reason(self, name: str, topic_id: UUID) -> str | None:
        noted_id, reason = self._noted.get(name, ("", ""))
        return reason if noted_id == str(topic_id) else None

    async def add(self, name: str, topic_id: UUID, reason: str) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._put, name, [str(topic_id), reason])

    def forget(self, name: str) -> None:
        """It is whole again, or another one has its place."""
        if name in self._noted:
            self._put(name, None)

    def _put(self, name: str, entry: list[str] | None) -> None:
        with self._lock:
            noted = {other: known for other, known in self._noted.items() if other != name}
            if entry is not None:
                noted[name] = entry
            self._storage.put_note(NOTE, noted)
            self._noted = noted
