"""The connection of a log's owner: for reads, and for changes that are not appends.

The owner is an event loop, so nothing here waits long. When the connection breaks, one attempt is made at
once to get another: a database that was restarted is there again before anybody asks. If that fails too, a
thread goes on trying, and until it succeeds everything is refused immediately, with an error that clients
take as a reason to try again.

Every change is one transaction, durable when it returns, and says the same when it is repeated: should its
outcome be lost with the connection, it is done again.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from penstock.storage.errors import StorageError
from penstock.storage.postgres_connection import CONNECT_S_MAX_ON_THE_LOOP, drop, is_away

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.storage.postgres_connection import Connection, Database

    T = TypeVar("T")
    Row = tuple[Any, ...]

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1


class Owner:
    def __init__(self, database: Database, connection: Connection, node_id: int, session: int) -> None:
        self._database = database
        self._connection: Connection | None = connection
        self._claim = node_id, session
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._healer: threading.Thread | None = None

    def query(self, what: str, statement: str, parameters: Sequence[Any]) -> list[Row]:
        """Rows, in binary form; `what` is for the message should it fail."""
        return self._run(
            what, lambda connection: connection.execute(statement, parameters, binary=True).fetchall()
        )

    def change(self, what: str, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """All of the statements or none, on disk when it returns."""

        def carry_out(connection: Connection) -> None:
            with connection.transaction():
                connection.execute("SELECT penstock.claim_change(%s, %s)", self._claim)
                for statement, parameters in statements:
                    connection.execute(statement, parameters)

        self._run(what, carry_out)

    def close(self) -> None:
        self._closed.set()
        if self._healer is not None:
            self._healer.join()
        drop(self._connection)

    def _run(self, what: str, work: Callable[[Connection], T]) -> T:
        with self._lock:
            if self._connection is None:
                raise StorageError(f"cannot {what}: {self._database.name} is away")
            try:
                try:
                    return work(self._connection)
                except psycopg.Error as error:
                    if not is_away(error):
                        raise
                    drop(self._connection)
                    self._connection = self._connect(connect_timeout=CONNECT_S_MAX_ON_THE_LOOP)
                    return work(self._connection)
            except psycopg.Error as error:
                if is_away(error):
                    self._heal()
                raise self._database.failure(f"{what} in", error) from error

    def _connect(self, **changes: int) -> Connection:
        connection = self._database.connect(**changes)
        prepare_session(connection)
        return connection

    def _heal(self) -> None:
        drop(self._connection)
        self._connection = None
        if not self._closed.is_set():
            self._healer = threading.Thread(target=self._try_again, name="postgres-healer", daemon=True)
            self._healer.start()

    def _try_again(self) -> None:
        while not self._closed.wait(RETRY_S):
            try:
                connection = self._connect()
            except psycopg.Error as error:
                log.debug("still away: %s", self._database.failure("connect to", error))
                continue
            with self._lock:
                self._connection = connection
            return


def prepare_session(connection: Connection) -> None:
    """What the owner changes is on disk when it returns, whatever the server's default is."""
    connection.execute("SET synchronous_commit = on")
