"""The tables in which PostgreSQL keeps logs, made and migrated here.

::

    schema_version  how far the migrations below have come
    nodes           whose rows these are: one storage id for each node
    writes          per node: who owns it (a session number) and the last group commit that it stored
    witness         unlogged, so that a crash of the database empties it: see postgres.py
    logs            a log's name and topic; the end offset of a clean close until something is written
    segments        their base offsets; what closed ones add up to
    chunks          whole batches, as they are: several small ones of one flush in one row
    staged          chunks that compaction has made and not yet put in place
    doomed          chunks that no segment holds any more, on their way out: see postgres_reaper.py
    blobs           epochs, producer snapshots and other small things beside a log
    notes           the same beside a node

A chunk is found by the last offset in it: the first one at or after an offset holds it, if any does. Batches
are incompressible more often than not, so they are stored out of line and as they came (`EXTERNAL`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.storage.errors import StorageError

if TYPE_CHECKING:
    from penstock.storage.postgres_connection import Connection

LOCK_CLASS: Final = 0x50454E53
"""First half of the advisory locks; the second is a node's id, or this one for the schema."""
SCHEMA_LOCK: Final = -1
NOT_THE_OWNER: Final = "PS001"
"""SQLSTATE of a statement by a process that is no longer the owner of the node's rows."""

_VERSION_1: Final = """
CREATE TABLE penstock.nodes (
    node_id integer PRIMARY KEY,
    storage_id uuid NOT NULL,
    cluster_id text NOT NULL,
    is_running boolean NOT NULL DEFAULT false
);
CREATE TABLE penstock.writes (
    node_id integer PRIMARY KEY REFERENCES penstock.nodes,
    session bigint NOT NULL,
    number bigint NOT NULL
) WITH (fillfactor = 10);
CREATE UNLOGGED TABLE penstock.witness (node_id integer PRIMARY KEY);
CREATE TABLE penstock.logs (
    log_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id integer NOT NULL REFERENCES penstock.nodes,
    name text NOT NULL,
    topic_id uuid NOT NULL,
    clean_end bigint,
    UNIQUE (node_id, name)
);
CREATE TABLE penstock.segments (
    log_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    end_offset bigint,
    size bigint,
    first_timestamp bigint,
    max_timestamp bigint,
    PRIMARY KEY (log_id, base_offset)
);
CREATE TABLE penstock.chunks (
    log_id bigint NOT NULL,
    base_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    first_timestamp bigint NOT NULL,
    max_timestamp bigint NOT NULL,
    size integer NOT NULL,
    batches bytea NOT NULL,
    PRIMARY KEY (log_id, last_offset)
);
ALTER TABLE penstock.chunks ALTER batches SET STORAGE EXTERNAL;
CREATE TABLE penstock.blobs (
    log_id bigint NOT NULL,
    name text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (log_id, name)
);
CREATE TABLE penstock.doomed (
    log_id bigint PRIMARY KEY,
    node_id integer NOT NULL REFERENCES penstock.nodes,
    before_offset bigint NOT NULL
);
CREATE TABLE penstock.staged (
    log_id bigint PRIMARY KEY,
    grave_id bigint NOT NULL,
    node_id integer NOT NULL REFERENCES penstock.nodes,
    run text NOT NULL
);
CREATE TABLE penstock.notes (
    node_id integer NOT NULL REFERENCES penstock.nodes,
    name text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (node_id, name)
);
CREATE FUNCTION penstock.claim_write(node integer, owner bigint, next bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE penstock.writes SET number = next WHERE node_id = node AND session = owner;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'PS001',
            MESSAGE = format('another process has taken over node %s', node);
    END IF;
END $$;
CREATE FUNCTION penstock.claim_change(node integer, owner bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM penstock.nodes WHERE node_id = node FOR KEY SHARE;
    PERFORM FROM penstock.writes WHERE node_id = node AND session = owner;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'PS001',
            MESSAGE = format('another process has taken over node %s', node);
    END IF;
END $$;
"""
MIGRATIONS: Final = (_VERSION_1,)
"""The n-th leads to version n. Each runs in one transaction with the note that it did."""


def migrate(connection: Connection, place: str) -> None:
    """Bring the tables to the version of this program; StorageError if they are of a later one."""
    if stored_version(connection) == len(MIGRATIONS):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_CLASS, SCHEMA_LOCK))
        connection.execute("CREATE SCHEMA IF NOT EXISTS penstock")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS penstock.schema_version"
            " (version integer PRIMARY KEY, migrated_at timestamptz NOT NULL DEFAULT now())"
        )
        version = stored_version(connection)
        if version > len(MIGRATIONS):
            raise StorageError(
                f"{place} has tables of version {version}; this Penstock knows up to {len(MIGRATIONS)}"
            )
        for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
            connection.execute(statements, prepare=False)
            connection.execute("INSERT INTO penstock.schema_version (version) VALUES (%s)", (number,))


def stored_version(connection: Connection) -> int:
    """0 before there are any tables."""
    row = connection.execute("SELECT to_regclass('penstock.schema_version') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM penstock.schema_version").fetchone()
    return int(row[0]) if row is not None else 0
