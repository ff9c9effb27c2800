"""Compaction beside a log in PostgreSQL: batches come from its chunks, what stays goes into new ones.

It runs in a thread of its own, on a connection of its own, and holds a few chunks in memory at a time. New
chunks are stored under a log id that nobody reads, noted in `staged`. The swap is then a matter of ids: the
old chunks get one that is doomed, the new ones that of the log. What a crash leaves in `staged` is doomed by
the next start.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock.storage.errors import StorageError
from penstock.storage.postgres_chunks import CHUNK_BYTES, Chunk, chunks_of
from penstock.storage.postgres_connection import drop
from penstock.storage.postgres_reaper import doom
from penstock.storage.postgres_statements import OFFSET_MAX, READ_CHUNKS, insert_chunk
from penstock.storage.recovery import IndexBuilder
from penstock.wire.batch import PATCHED_SIZE, check_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.storage.cleaning_files import Made
    from penstock.storage.compaction import CompactionPlan
    from penstock.storage.interface import SegmentInfo
    from penstock.storage.postgres_connection import Connection, Database
    from penstock.storage.postgres_writer import Statement
    from penstock.wire.batch import BatchHeader, Buffer

READ_BYTES: Final = 4 * CHUNK_BYTES
NEW_ID: Final = "SELECT nextval(pg_get_serial_sequence('penstock.logs', 'log_id'))"
STAGE: Final = "INSERT INTO penstock.staged (log_id, grave_id, node_id, run) VALUES (%s, %s, %s, %s)"
STAGED: Final = "SELECT log_id, grave_id FROM penstock.staged WHERE node_id = %s AND run = %s"
BURY: Final = """UPDATE penstock.chunks SET log_id = %s
    WHERE log_id = %s AND last_offset BETWEEN %s AND %s
        AND EXISTS (SELECT FROM penstock.staged WHERE log_id = %s)"""
PUT_IN_PLACE: Final = "UPDATE penstock.chunks SET log_id = %s WHERE log_id = %s"
UNSTAGE: Final = "DELETE FROM penstock.staged WHERE log_id = %s"


class PostgresRound:
    made: None = None

    def __init__(self, plan: CompactionPlan, database: Database, node_id: int, log_id: int) -> None:
        self._name = plan.name
        self._run = plan.run
        self._interval = plan.index_interval_bytes
        self._database = database
        self._node_id = node_id
        self._log_id = log_id
        self._staging_id = 0
        self._connection: Connection | None = None
        self._builder = IndexBuilder(0, self._interval)
        self._buffers: list[Buffer] = []
        self._buffered = 0

    def batches(self, segments: Sequence[SegmentInfo]) -> Iterator[tuple[BatchHeader, memoryview]]:
        for segment in segments:
            offset = segment.base_offset
            while offset < segment.end_offset:
                chunks = self._read(offset, segment.end_offset)
                if not chunks:
                    break
                for chunk in chunks:
                    yield from _batches(chunk)
                    offset = chunk.last_offset + 1

    def _read(self, offset: int, end_offset: int) -> list[Chunk]:
        with self._at_work() as connection:
            parameters = (self._log_id, offset, end_offset, READ_BYTES)
            found = connection.execute(READ_CHUNKS, parameters, binary=True).fetchall()
        return [Chunk.parse(bytes(data)) for (data,) in found]

    def begin(self, base_offset: int) -> None:
        self._builder = IndexBuilder(base_offset, self._interval)
        if not self._staging_id:
            with self._at_work() as connection:
                staging_id, grave_id = (_number(connection, NEW_ID) for _ in range(2))
                connection.execute(STAGE, (staging_id, grave_id, self._node_id, self._run))
                self._staging_id = staging_id

    def add(self, batch: Buffer) -> None:
        view = memoryview(batch)
        self._builder.add(self._builder.size, check_batch(view))
        self._buffers += [view[:PATCHED_SIZE], view[PATCHED_SIZE:]]
        self._buffered += len(view)
        if self._buffered >= CHUNK_BYTES:
            self._flush()

    def end(self, end_offset: int) -> Made:
        self._flush()
        self._builder.end_offset = end_offset
        stored = self._builder.stored()
        return stored.end_offset, stored.covered, stored.first_timestamp, stored.max_timestamp

    def close(self) -> None:
        drop(self._connection)
        self._connection = None

    def discard(self) -> None:
        """Leave nothing, if the database is there; else the next start sees to it."""
        with suppress(StorageError), self._at_work() as connection:
            for statement, parameters in discarded(self._node_id, self._staging_id):
                connection.execute(statement, parameters)
        self.close()

    def _flush(self) -> None:
        with self._at_work() as connection, connection.pipeline():
            for chunk in chunks_of(self._buffers):
                connection.execute(*insert_chunk(self._staging_id, chunk))
        self._buffers = []
        self._buffered = 0

    @contextmanager
    def _at_work(self) -> Iterator[Connection]:
        try:
            if self._connection is None:
                self._connection = self._database.connect()
                # The swap is synchronous, and what it speaks of was written before it.
                self._connection.execute("SET synchronous_commit = off")
            yield self._connection
        except psycopg.Error as error:
            raise self._database.failure(f"compact {self._name} in", error) from error


def swapped(node_id: int, log_id: int, bounds: tuple[int, int], staged: tuple[int, int]) -> list[Statement]:
    """Staged chunks in the place of those within the bounds. Once done, doing it again changes nothing."""
    staging_id, grave_id = staged
    return [
        (BURY, (grave_id, log_id, *bounds, staging_id)),
        (PUT_IN_PLACE, (log_id, staging_id)),
        doom(node_id, grave_id, OFFSET_MAX),
        (UNSTAGE, (staging_id,)),
    ]


def discarded(node_id: int, staging_id: int) -> list[Statement]:
    return [doom(node_id, staging_id, OFFSET_MAX), (UNSTAGE, (staging_id,))] if staging_id else []


def _batches(chunk: Chunk) -> Iterator[tuple[BatchHeader, memoryview]]:
    view = memoryview(chunk.data)
    ends = [*chunk.positions[1:], chunk.size]
    for start, end in zip(chunk.positions, ends, strict=True):
        batch = view[start:end]
        yield check_batch(batch), batch


def _number(connection: Connection, statement: str) -> int:
    found: Any = connection.execute(statement).fetchone()
    return int(found[0])
