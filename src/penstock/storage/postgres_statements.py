"""What logs say to PostgreSQL. Each statement is prepared once for each connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg.types.numeric import Int8

if TYPE_CHECKING:
    from penstock.storage.postgres_chunks import Chunk
    from penstock.storage.postgres_writer import Statement

OFFSET_MAX: Final = 2**63 - 1

INSERT_CHUNK: Final = """INSERT INTO penstock.chunks
    (log_id, base_offset, last_offset, first_timestamp, max_timestamp, size, batches)
    VALUES (%s, %s, %s, %s, %s, %s, %s)"""
INSERT_SEGMENT: Final = "INSERT INTO penstock.segments (log_id, base_offset) VALUES (%s, %s)"
CLOSE_SEGMENT: Final = """UPDATE penstock.segments
    SET end_offset = %s, size = %s, first_timestamp = %s, max_timestamp = %s
    WHERE log_id = %s AND base_offset = %s"""
REOPEN_SEGMENT: Final = """UPDATE penstock.segments
    SET end_offset = %s, size = NULL, first_timestamp = NULL, max_timestamp = NULL
    WHERE log_id = %s AND base_offset = %s"""
DELETE_SEGMENTS: Final = "DELETE FROM penstock.segments WHERE log_id = %s AND base_offset BETWEEN %s AND %s"
DELETE_CHUNKS: Final = "DELETE FROM penstock.chunks WHERE log_id = %s AND last_offset BETWEEN %s AND %s"
PUT_BLOB: Final = """INSERT INTO penstock.blobs (log_id, name, data) VALUES (%s, %s, %s)
    ON CONFLICT (log_id, name) DO UPDATE SET data = excluded.data"""
REMOVE_BLOBS: Final = "DELETE FROM penstock.blobs WHERE log_id = %s AND name = ANY(%s)"
SET_CLEAN: Final = "UPDATE penstock.logs SET clean_end = %s WHERE log_id = %s"
READ_CHUNKS: Final = """SELECT batches FROM (
        SELECT last_offset, batches, sum(size) OVER (ORDER BY last_offset) - size AS before FROM (
            SELECT last_offset, batches, size FROM penstock.chunks
            WHERE log_id = %s AND last_offset >= %s AND base_offset < %s
            ORDER BY last_offset LIMIT 64) AS following) AS counted
    WHERE before < %s ORDER BY last_offset"""
READ_SEGMENTS: Final = """SELECT base_offset, end_offset, size, first_timestamp, max_timestamp
    FROM penstock.segments WHERE log_id = %s ORDER BY base_offset"""
SUM_UP: Final = """SELECT max(last_offset) + 1, sum(size)::bigint, max(max_timestamp),
        (array_agg(first_timestamp ORDER BY last_offset) FILTER (WHERE first_timestamp >= 0))[1]
    FROM penstock.chunks WHERE log_id = %s AND last_offset >= %s"""


def insert_chunk(log_id: int, chunk: Chunk) -> Statement:
    # With one type for each column there is one prepared statement, whatever the numbers are.
    numbers = (
        log_id,
        chunk.base_offset,
        chunk.last_offset,
        chunk.first_timestamp,
        chunk.max_timestamp,
        chunk.size,
    )
    return INSERT_CHUNK, (*map(Int8, numbers), chunk.data)
