"""All logs of a node in PostgreSQL: whose rows they are, and that only one process uses them.

Several nodes may share a database; each has rows of its own. An advisory lock, held by the connection that
writes, is what the lock file is to a data folder. It goes with its connection, so it alone would not keep a
process from writing that has lost it without noticing: each owner also has a session number, and every
transaction begins with the claim that it is still the latest.

Under `flush=os` a crash of the database together with this process loses what was acknowledged last. That it
happened is told by two notes: `is_running` in the node's row, and a row in `witness`, an unlogged table that
a crash of the database empties. The first without the second means that something may be gone, and goes on
meaning it until some process has ended as it should.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock.storage.blobs import seal, unseal
from penstock.storage.errors import StorageError
from penstock.storage.folder import ASIDE_PREFIX, check_name
from penstock.storage.postgres_chunks import ChunkCache
from penstock.storage.postgres_compaction import discarded
from penstock.storage.postgres_connection import Database, drop
from penstock.storage.postgres_log import PostgresBackend, PostgresLog, Tools
from penstock.storage.postgres_owner import Owner, prepare_session
from penstock.storage.postgres_reaper import Reaper, doom
from penstock.storage.postgres_schema import LOCK_CLASS, migrate
from penstock.storage.postgres_statements import OFFSET_MAX
from penstock.storage.postgres_writer import GroupWriter

if TYPE_CHECKING:
    from penstock.storage.config import LogConfig
    from penstock.storage.log import PartitionLog
    from penstock.storage.postgres_connection import Connection

LOCK_S_MAX: Final = 3.0
"""A process that was killed leaves the server with a connection to notice and a statement to finish."""
LOCK_RETRY_S: Final = 0.05
PUT_WITNESS: Final = "INSERT INTO penstock.witness (node_id) VALUES (%s) ON CONFLICT DO NOTHING"

CREATE_LOG: Final = """INSERT INTO penstock.logs (node_id, name, topic_id) VALUES (%s, %s, %s)
    ON CONFLICT (node_id, name) DO NOTHING"""
PUT_NOTE: Final = """INSERT INTO penstock.notes (node_id, name, data) VALUES (%s, %s, %s)
    ON CONFLICT (node_id, name) DO UPDATE SET data = excluded.data"""
HOLDER: Final = """SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted
        AND l.classid = %s::bigint::oid AND l.objid = %s::bigint::oid
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class PostgresStorage:
    """Use `PostgresStorage.open`."""

    def __init__(self, database: Database, node_id: int, owner: Owner, writer: GroupWriter) -> None:
        self.node_id = node_id
        self.place = database.name
        self._owner = owner
        self._writer = writer
        self._reaper = Reaper(database, node_id)
        self._tools = Tools(node_id, database, owner, writer, self._reaper, ChunkCache())
        found = owner.query(
            "read the node's row",
            "SELECT storage_id, cluster_id, is_running, w.node_id IS NOT NULL"
            " FROM penstock.nodes n LEFT JOIN penstock.witness w USING (node_id) WHERE node_id = %s",
            (node_id,),
        )[0]
        self.storage_id: uuid.UUID = found[0]
        self.cluster_id: str = found[1]
        self._was_running, self._has_witness = bool(found[2]), bool(found[3])
        self._known: dict[str, tuple[int, uuid.UUID, int | None]] = {
            name: (log_id, topic_id, clean_end)
            for name, log_id, topic_id, clean_end in owner.query(
                "list the logs",
                "SELECT name, log_id, topic_id, clean_end FROM penstock.logs WHERE node_id = %s",
                (node_id,),
            )
            if not name.startswith(ASIDE_PREFIX)
        }
        self._open: dict[str, tuple[PartitionLog, PostgresBackend]] = {}
        self._discard_staged()
        if owner.query("look for old chunks", "SELECT FROM penstock.doomed WHERE node_id = %s", (node_id,)):
            self._reaper.wake()

    def _discard_staged(self) -> None:
        """What compactions left that nobody put in place."""
        left = self._owner.query(
            "look for compacted segments",
            "SELECT log_id FROM penstock.staged WHERE node_id = %s",
            (self.node_id,),
        )
        for (staging_id,) in left:
            self._owner.change("discard compacted segments", discarded(self.node_id, staging_id))

    @classmethod
    def open(
        cls, url: str, node_id: int, *, cluster_id: str = "", give_up_s: float | None = None
    ) -> PostgresStorage:
        """Create or open the node's rows and lock them. StorageError says in one line why not.

        `give_up_s`: for how long a write waits for a database that is away; None: for ever.
        """
        database = Database(url, node_id)
        connections: list[Connection] = []
        try:
            try:
                connections.append(database.connect())
            except psycopg.Error as error:
                raise database.failure("connect to", error) from error
            writing = connections[0]
            try:
                migrate(writing, database.name)
                lock(writing, database.name, node_id)
                session, number = take_over(writing, node_id, cluster_id)
                connections.append(database.connect())
                prepare_session(connections[1])
                owner = Owner(database, connections[1], node_id, session)
            except psycopg.Error as error:
                raise database.failure("use", error) from error
            writer = GroupWriter(database, writing, node_id, session, number, give_up_s)
            return cls(database, node_id, owner, writer)
        except BaseException:
            for connection in connections:
                drop(connection)
            raise

    def begin_running(self) -> bool:
        """Note that a process runs with `flush=os`. Whether all that the last one acknowledged is there."""
        if self._was_running and not self._has_witness:
            return False
        self._owner.change(
            "write the node's row",
            [
                ("UPDATE penstock.nodes SET is_running = true WHERE node_id = %s", (self.node_id,)),
                (PUT_WITNESS, (self.node_id,)),
            ],
        )
        self._writer.witness = PUT_WITNESS, (self.node_id,)
        return True

    def set_aside(self, name: str) -> str:
        """The rows stay, under a name that no topic can have."""
        check_name(name)
        if name in self._open and not self._open[name][0].closed:
            raise StorageError(f"{name} is open and cannot be set aside")
        aside = f"{ASIDE_PREFIX}{name}-{uuid.uuid4().hex}"
        log_id, _, _ = self._known[name]
        self._owner.change(
            f"set the log {name} aside",
            [("UPDATE penstock.logs SET name = %s WHERE log_id = %s", (aside, log_id))],
        )
        del self._known[name]
        return f"{aside} in penstock.logs"

    def set_cluster_id(self, cluster_id: str) -> None:
        if cluster_id != self.cluster_id:
            self._owner.change(
                "write the node's row",
                [
                    (
                        "UPDATE penstock.nodes SET cluster_id = %s WHERE node_id = %s",
                        (cluster_id, self.node_id),
                    )
                ],
            )
            self.cluster_id = cluster_id

    def open_log(self, name: str, topic_id: uuid.UUID, config: LogConfig, now_ms: int) -> PartitionLog:
        check_name(name)
        if name in self._open and not self._open[name][0].closed:
            raise StorageError(f"{name} is open already")
        if name not in self._known:
            self._create_log(name, topic_id)
        log_id, known, clean_end = self._known[name]
        if name in self._open:
            clean_end = self._open[name][1].clean_end
        if known != topic_id:
            raise StorageError(f"{name} belongs to topic id {known}, not {topic_id}")
        backend = PostgresBackend(log_id, self._tools, clean_end)
        log = PostgresLog(name, topic_id, config, backend, now_ms)
        self._open[name] = log, backend
        return log

    def _create_log(self, name: str, topic_id: uuid.UUID) -> None:
        self._owner.change(
            f"create the log {name}",
            [
                (CREATE_LOG, (self.node_id, name, topic_id)),
            ],
        )
        found = self._owner.query(
            f"open the log {name}",
            "SELECT log_id, topic_id, clean_end FROM penstock.logs WHERE node_id = %s AND name = %s",
            (self.node_id, name),
        )[0]
        self._known[name] = found[0], found[1], found[2]

    def logs(self) -> list[tuple[str, uuid.UUID]]:
        return sorted((name, topic_id) for name, (_, topic_id, _) in self._known.items())

    def delete_log(self, name: str) -> None:
        check_name(name)
        opened = self._open.pop(name, None)
        assert opened is None or not opened[0].is_flushing, "deletion waits for the job in flight"
        if opened is not None:
            opened[0].abandon()
        if name not in self._known:
            return
        log_id = self._known[name][0]
        self._owner.change(
            f"delete the log {name}",
            [
                ("DELETE FROM penstock.logs WHERE log_id = %s", (log_id,)),
                ("DELETE FROM penstock.segments WHERE log_id = %s", (log_id,)),
                ("DELETE FROM penstock.blobs WHERE log_id = %s", (log_id,)),
                doom(self.node_id, log_id, OFFSET_MAX),
            ],
        )
        self._reaper.wake()
        del self._known[name]

    def get_note(self, name: str) -> Any:
        found = self._owner.query(
            "read a note",
            "SELECT data FROM penstock.notes WHERE node_id = %s AND name = %s",
            (self.node_id, name),
        )
        return unseal(bytes(found[0][0])) if found else None

    def put_note(self, name: str, note: Any) -> None:
        self._owner.change(
            "write a note",
            [
                (PUT_NOTE, (self.node_id, name, seal(note))),
            ],
        )

    def stopping(self) -> None:
        self._writer.stopping()

    def close(self) -> None:
        """Close every log and give the node free. The first failure is raised once that is done."""
        failures: list[StorageError] = []
        for log, _ in self._open.values():
            try:
                log.close()
            except StorageError as error:
                failures.append(error)
        self._open.clear()
        if not failures:
            try:
                self._writer.settle()
                self._owner.change(
                    "write the node's row",
                    [("UPDATE penstock.nodes SET is_running = false WHERE node_id = %s", (self.node_id,))],
                )
            except StorageError as error:
                failures.append(error)
        self._reaper.close()
        self._owner.close()
        self._writer.close()
        if failures:
            raise failures[0]


def lock(connection: Connection, place: str, node_id: int) -> None:
    deadline = time.monotonic() + LOCK_S_MAX
    while True:
        found = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (LOCK_CLASS, node_id)).fetchone()
        if found is not None and found[0]:
            return
        if time.monotonic() >= deadline:
            raise StorageError(f"node {node_id} in {place} is in use by {holder(connection, node_id)}")
        time.sleep(LOCK_RETRY_S)


def holder(connection: Connection, node_id: int) -> str:
    found = connection.execute(HOLDER, (LOCK_CLASS, node_id)).fetchone()
    return str(found[0]) if found is not None and found[0] else "another process"


def take_over(connection: Connection, node_id: int, cluster_id: str) -> tuple[int, int]:
    """Become the owner: a session number above all before it, and the number of the last group commit."""
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit = on")
        connection.execute(
            "INSERT INTO penstock.nodes (node_id, storage_id, cluster_id) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (node_id, uuid.uuid4(), cluster_id),
        )
        connection.execute("SELECT FROM penstock.nodes WHERE node_id = %s FOR UPDATE", (node_id,))
        found = connection.execute(
            "INSERT INTO penstock.writes AS w (node_id, session, number) VALUES (%s, 1, 0)"
            " ON CONFLICT (node_id) DO UPDATE SET session = w.session + 1 RETURNING session, number",
            (node_id,),
        ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])
