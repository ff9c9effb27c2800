"""Opening the log of a partition, whatever state its files are in.

A log may lack what others count on, or be damaged so that it has to be filled anew. While this node is in
sync with it, and others are too, it stays closed: the node leaves the in-sync sets first (lost_replicas.py).
Then a damaged end is cut, and a log that is damaged within is set aside, not deleted, and begun anew as that
of a new replica. With nobody else in sync it is opened as it is, or out of service.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.storage import DamagedEndError, RotError, StorageError

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.broker.damaged_logs import DamagedLogs
    from penstock.broker.lost_replicas import LostReplicas
    from penstock.metadata.image import PartitionImage
    from penstock.storage import LogConfig, PartitionLog, Storage

log = logging.getLogger(__name__)


class LogOpener:
    def __init__(self, storage: Storage, lost_replicas: LostReplicas, damaged_logs: DamagedLogs) -> None:
        self._storage = storage
        self._lost_replicas = lost_replicas
        self._damaged_logs = damaged_logs

    def open(
        self, name: str, topic_id: UUID, image: PartitionImage, config: LogConfig, now_ms: int
    ) -> PartitionLog | StorageError | None:
        """The log, or why it cannot be opened; None: it must not be opened yet. Any thread."""
        try:
            reason = self._damaged_logs.maybe_reason(name, topic_id)
            if reason is not None and (may := self._lost_replicas.may_cut(name, image, reason)) is not False:
                if may is None:
                    return None
                self._set_aside(name, reason)
            return self._open(name, topic_id, image, config, now_ms)
        except StorageError as error:
            return error

    def _open(
        self, name: str, topic_id: UUID, image: PartitionImage, config: LogConfig, now_ms: int
    ) -> PartitionLog | None:
        try:
            return self._storage.open_log(name, topic_id, config, now_ms=now_ms)
        except (DamagedEndError, RotError) as error:
            may = self._lost_replicas.may_cut(name, image, str(error))
            if may is None:
                return None
            if may is False:
                raise
            if isinstance(error, RotError):
                self._set_aside(name, str(error))
            return self._storage.open_log(
                name, topic_id, replace(config, cuts_damaged_end=True), now_ms=now_ms
            )

    def _set_aside(self, name: str, reason: str) -> None:
        folder = self._storage.set_aside(name)
        log.error("%s is filled anew by its leader, and was moved to %s: %s", name, folder, reason)
        self._damaged_logs.forget(name)
