"""Which replicas on this broker may lack what was committed, found before anybody counts on them.

A broker starts fenced. While it opens its logs it looks at each with which it is in sync, and takes it for
lost if

* it was written under `flush=os`, was not closed cleanly, and the machine has been started anew since;
* it ends before the high watermark that was written down here some seconds before the end;
* its end is damaged in a way that cannot come from a write that was under way (see storage/recovery.py). Such
  a log stays closed for now: nothing may be cut while somebody counts on it;
* it cannot be opened at all.

Then the broker registers once more, as one that was not stopped cleanly, so that the controller takes it out
of every in-sync set. After that it is fed by the leaders like a new replica; a damaged end is cut then. A log
that no other replica is in sync with is not given up: it opens as it is or is out of service, alone.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.broker.partition import Partition
    from penstock.metadata.image import PartitionImage
    from penstock.storage import PartitionLog, Storage

log = logging.getLogger(__name__)

NOTE: Final = "high-watermarks"


class LostReplicas:
    def __init__(self, storage: Storage, node_id: int, *, page_cache_survived: bool) -> None:
        self.found: dict[str, str] = {}
        """Logs that may lack something, and why."""
        self._storage = storage
        self._node_id = node_id
        self._page_cache_survived = page_cache_survived
        self._noted: dict[str, list[str | int]] = storage.get_note(NOTE) or {}

    def examine(self, opened: PartitionLog, image: PartitionImage) -> None:
        """A log that was just opened at the start."""
        if self._node_id not in image.isr:
            return
        reason = self._maybe_reason(opened)
        if reason is not None:
            self._take_for_lost(opened.name, reason)

    def _maybe_reason(self, opened: PartitionLog) -> str | None:
        if not (self._page_cache_survived or opened.is_durable):
            return "it was not synced when the machine stopped"
        topic_id, high_watermark = self._noted.get(opened.name, ("", 0))
        if topic_id == str(opened.topic_id) and opened.log_end_offset < int(high_watermark):
            return f"it ends at offset {opened.log_end_offset}, and {high_watermark} was the high watermark"
        return None

    def may_cut(self, name: str, image: PartitionImage, reason: str) -> bool | None:
        """Whether the damaged end of a log may go: None if not yet, False if never, since nobody has more."""
        if set(image.isr) <= {self._node_id}:
            return False  # also if nobody is in sync: whoever leads then is decided by what the replicas have
        if self._node_id not in image.isr:
            return True
        self._take_for_lost(name, reason)
        return None

    def cannot_open(self, name: str, image: PartitionImage, reason: str) -> None:
        """A log that stays closed at the start: others that are in sync must be able to do without it."""
        if self._node_id in image.isr and len(image.isr) > 1:
            self._take_for_lost(name, reason)

    def _take_for_lost(self, name: str, reason: str) -> None:
        self.found[name] = reason
        log.error("%s may lack what was committed: %s", name, reason)

    async def note_high_watermarks(self, partitions: Iterable[Partition]) -> None:
        """Write down how much is committed, if that has changed."""
        notes: dict[str, list[str | int]] = {
            partition.log.name: [str(partition.topic_id), partition.high_watermark]
            for partition in partitions
        }
        if notes != self._noted:
            await asyncio.get_running_loop().run_in_executor(None, self._storage.put_note, NOTE, notes)
            self._noted = notes
