"""Removing what no segment holds any more, in small steps, beside everything else.

Deleting a gigabyte takes PostgreSQL seconds, for which neither an event loop nor other logs should wait. So
whoever drops a segment or a log only notes up to which offset a log's chunks are doomed, in the same
transaction; from then on nobody sees them. A thread with a connection of its own removes them, for as long as
there are any, and goes on after a restart. It removes the same whether or not a step of it was lost, so its
commits do not wait for a disk.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

import psycopg

from penstock.storage.postgres_connection import drop

if TYPE_CHECKING:
    from penstock.storage.postgres_connection import Connection, Database
    from penstock.storage.postgres_writer import Statement

log = logging.getLogger(__name__)

STEP_ROWS: Final = 16
RETRY_S: Final = 1.0
NEXT: Final = """SELECT log_id, before_offset FROM penstock.doomed WHERE node_id = %s
    ORDER BY log_id LIMIT 1 FOR UPDATE"""
DELETE_SOME: Final = """DELETE FROM penstock.chunks WHERE log_id = %s AND last_offset IN (
    SELECT last_offset FROM penstock.chunks WHERE log_id = %s AND last_offset < %s
    ORDER BY last_offset LIMIT %s)"""


def doom(node_id: int, log_id: int, before_offset: int) -> Statement:
    """All chunks of the log before that offset."""
    return (
        """INSERT INTO penstock.doomed (node_id, log_id, before_offset) VALUES (%s, %s, %s)
            ON CONFLICT (log_id) DO UPDATE SET before_offset = excluded.before_offset""",
        (node_id, log_id, before_offset),
    )


def spare(log_id: int, from_offset: int) -> Statement:
    """None from that offset on: new ones may take their place."""
    return (
        "UPDATE penstock.doomed SET before_offset = LEAST(before_offset, %s) WHERE log_id = %s",
        (from_offset, log_id),
    )


class Reaper:
    def __init__(self, database: Database, node_id: int) -> None:
        self._database = database
        self._node_id = node_id
        self._lock = threading.Lock()
        self._is_due = False
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def wake(self) -> None:
        """Something has been doomed. Any thread."""
        with self._lock:
            self._is_due = True
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._work, name="postgres-reaper", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """What is left is for the next start."""
        self._closed.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._is_due or self._closed.is_set():
                    self._thread = None
                    return
                self._is_due = False
            try:
                self._remove_all()
            except psycopg.Error as error:
                log.debug("%s", self._database.failure("remove old chunks in", error))
                self._is_due = True
                self._closed.wait(RETRY_S)

    def _remove_all(self) -> None:
        connection = self._database.connect()
        try:
            connection.execute("SET synchronous_commit = off")
            while not self._closed.is_set() and self._remove_some(connection):
                pass
        finally:
            drop(connection)

    def _remove_some(self, connection: Connection) -> bool:
        with connection.transaction():
            found = connection.execute(NEXT, (self._node_id,)).fetchone()
            if found is None:
                return False
            log_id, before = found
            removed = connection.execute(DELETE_SOME, (log_id, log_id, before, STEP_ROWS)).rowcount
            if removed < STEP_ROWS:
                connection.execute("DELETE FROM penstock.doomed WHERE log_id = %s", (log_id,))
        return True
