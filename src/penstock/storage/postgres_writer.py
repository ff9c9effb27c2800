"""Group commits: what several logs have to write goes into one transaction, on one connection.

Writer threads hand in requests. The first one carries out all that is there, the others wait; what arrives
meanwhile is the next group.

Each group has a number, stored in the same transaction. When the connection breaks in the middle of a commit
nobody knows whether it happened. A new connection looks at the stored number and thereby knows, so that
nothing is left out and nothing is written twice. The connection also holds the lock on the node's rows: with
a new one, somebody else could have been the owner in between, which the session number tells.

Without `sync` a commit returns before the database has it on disk, and a crash of the database may lose the
last ones, never one before another. They are kept here until a commit with `sync` has covered them, which is
at the latest when they have grown to KEPT_BYTES, and written again if need be: to lose something, both
processes have to crash.

While the database is away writes wait. New ones are refused after a while (`check`), because those who wait
need memory. Nothing is given up on, unless the node stops or has other replicas to leave its work to.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock.storage.config import MIB
from penstock.storage.errors import StorageError
from penstock.storage.postgres_connection import drop, is_away
from penstock.storage.postgres_schema import LOCK_CLASS, NOT_THE_OWNER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.storage.postgres_connection import Connection, Database

log = logging.getLogger(__name__)

GROUP_BYTES: Final = 16 * MIB
KEPT_BYTES: Final = 16 * MIB
PATIENCE_S: Final = 10.0
"""For so long after a connection broke, appends are taken as if it would be back in a moment."""
STOPPING_S: Final = 3.0
RETRY_S_MIN, RETRY_S_MAX = 0.05, 1.0

Statement = tuple[str, "Sequence[Any]"]


@dataclass(slots=True, eq=False)
class Request:
    statements: list[Statement]
    size: int
    sync: bool
    is_done: bool = False
    error: StorageError | None = None


@dataclass(slots=True)
class _Group:
    number: int
    requests: list[Request]
    sync: bool
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(request.size for request in self.requests)


class _RefusedError(StorageError):
    """The database took offence at what was to be written: it would do so again."""


class GroupWriter:
    def __init__(
        self,
        database: Database,
        connection: Connection,
        node_id: int,
        session: int,
        number: int,
        give_up_s: float | None,
    ) -> None:
        """`connection` holds the lock of the node; `number` is the last one stored."""
        self._database = database
        self._connection: Connection | None = connection
        self._is_synchronous: bool | None = None
        self._node_id, self._session, self._number = node_id, session, number
        self._give_up_s = give_up_s
        self._condition = threading.Condition()
        self._queue: list[Request] = []
        self._is_busy = False
        self._kept: list[_Group] = []
        self._away_since: float | None = None
        self._stopping = threading.Event()
        self._give_up_at: float | None = None
        self._failure: StorageError | None = None
        self.witness: Statement | None = None
        """To be repeated on each new connection, once all that was kept is stored again."""

    # For whoever appends

    def check(self) -> None:
        """StorageError while the database has been away for too long to let more wait for it."""
        since = self._away_since
        if since is not None and time.monotonic() - since > PATIENCE_S:
            raise StorageError(f"{self._database.name} is away")

    def write(self, statements: list[Statement], size: int, *, sync: bool) -> None:
        """Committed when it returns. Blocks, also while the database is away."""
        request = Request(statements, size, sync)
        with self._condition:
            self._queue.append(request)
        while True:
            with self._condition:
                while self._is_busy and not request.is_done:
                    self._condition.wait()
                if request.is_done:
                    break
                requests = self._take()
                self._is_busy = True
            self._lead(requests)
        if request.error is not None:
            raise StorageError(str(request.error)) from request.error

    def stopping(self) -> None:
        """From now on nothing waits long for a database that is away."""
        self._give_up_at = time.monotonic() + STOPPING_S
        self._stopping.set()

    def settle(self) -> None:
        """All that was written is on the database's disk when it returns."""
        if self._kept:
            self.write([], 0, sync=True)

    def close(self) -> None:
        drop(self._connection)
        self._connection = None

    def _take(self) -> list[Request]:
        """The oldest requests, as many as make a group of a sensible size."""
        size = count = 0
        while count < len(self._queue) and (not count or size + self._queue[count].size <= GROUP_BYTES):
            size += self._queue[count].size
            count += 1
        taken, self._queue = self._queue[:count], self._queue[count:]
        return taken

    def _lead(self, requests: list[Request]) -> None:
        """Carry out the requests, among which is the caller's own unless the group was full before it."""
        try:
            self._try(requests)
            if len(requests) > 1 and isinstance(requests[0].error, _RefusedError):
                for request in requests:  # so that only the one who is to blame has to bear it
                    request.error = None
                    self._try([request])
        finally:
            with self._condition:
                for request in requests:
                    request.is_done = True
                self._is_busy = False
                self._condition.notify_all()

    def _try(self, requests: list[Request]) -> None:
        failure: StorageError | None = StorageError("a bug in the group commit")
        try:
            self._carry_out(requests)
            failure = None
        except StorageError as error:
            failure = error
        finally:
            for request in requests:
                request.error = failure

    # By the one thread that leads

    def _carry_out(self, requests: list[Request]) -> None:
        if self._failure is not None:
            raise StorageError(str(self._failure))
        sync = any(request.sync for request in requests)
        size = sum(group.size for group in self._kept) + sum(request.size for request in requests)
        group = _Group(self._number + 1, requests, sync or size > KEPT_BYTES)
        retry_s = RETRY_S_MIN
        while True:
            try:
                if self._connection is not None or not self._reconnected(group):
                    self._store(group)
                break
            except psycopg.Error as error:
                self._lost()
                failure = self._database.failure("write to", error)
                if error.sqlstate == NOT_THE_OWNER:
                    self._failure = failure
                if not is_away(error):
                    raise _RefusedError(str(failure)) from error
                self._bear(failure)
            if self._stopping.wait(retry_s):
                time.sleep(RETRY_S_MIN)
            retry_s = min(2 * retry_s, RETRY_S_MAX)
        self._number = group.number
        self._kept = [] if group.sync else [*self._kept, group]
        if self._away_since is not None:
            log.warning("%s is back after %.1f s", self._database.name, time.monotonic() - self._away_since)
            self._away_since = None

    def _lost(self) -> None:
        drop(self._connection)
        self._connection = None
        self._is_synchronous = None

    def _bear(self, failure: StorageError) -> None:
        """Wait on, or raise why not."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            log.warning("%s; writes wait until it is back", failure)
        limits = [self._give_up_at]
        if self._give_up_s is not None:
            limits.append(self._away_since + self._give_up_s)
        if any(limit is not None and now >= limit for limit in limits):
            raise failure

    def _reconnected(self, group: _Group) -> bool:
        """Connect, lock, and store again what is missing; whether the group turned out to be stored."""
        connection = self._database.connect()
        try:
            locked = connection.execute(
                "SELECT pg_try_advisory_lock(%s, %s)", (LOCK_CLASS, self._node_id)
            ).fetchone()
            # A statement of its own: it must see what the last connection stored before it gave up the lock.
            found = connection.execute(
                "SELECT session, number FROM penstock.writes WHERE node_id = %s", (self._node_id,)
            ).fetchone()
        except psycopg.Error:
            drop(connection)
            raise
        self._connection = connection
        session, number = found if found is not None else (None, 0)
        oldest = self._kept[0].number - 1 if self._kept else self._number
        if session != self._session:
            self._fail(f"another process has taken over node {self._node_id} in {self._database.name}")
        if number < oldest:
            self._fail(f"{self._database.name} has lost writes that it had confirmed")
        if locked != (True,):  # the server has not noticed yet that our last connection is gone
            raise psycopg.OperationalError("the lock of the lost connection is still held")
        missing = [kept for kept in self._kept if kept.number > number]
        for kept in missing:
            self._store(_Group(kept.number, kept.requests, sync=True))
        if missing:
            self._kept = []
        if self.witness is not None:
            connection.execute(*self.witness)
        return bool(number >= group.number)

    def _fail(self, reason: str) -> None:
        self._lost()
        self._failure = StorageError(reason)
        raise StorageError(reason)

    def _store(self, group: _Group) -> None:
        """One transaction, one round trip."""
        connection = self._connection
        assert connection is not None
        with connection.pipeline():
            if self._is_synchronous is not group.sync:
                mode = "on" if group.sync else "off"
                connection.execute(f"SET synchronous_commit = {mode}")
                self._is_synchronous = group.sync
            connection.execute("BEGIN")
            connection.execute(
                "SELECT penstock.claim_write(%s, %s, %s)", (self._node_id, self._session, group.number)
            )
            for request in group.requests:
                for statement, parameters in request.statements:
                    connection.execute(statement, parameters)
            connection.execute("COMMIT")
