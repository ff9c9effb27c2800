"""What only the PostgreSQL backend has: a schema, an owner, and a database that goes away and comes back."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock.storage import (
    Flush,
    LogConfig,
    PartitionLog,
    StorageError,
    postgres_chunks,
    postgres_writer,
    run_compaction,
)
from penstock.storage.postgres import PostgresStorage
from penstock.storage.postgres_chunks import Chunk, ChunkCache, chunks_of
from penstock.storage.postgres_schema import MIGRATIONS
from penstock.wire.records import decode_records
from tests.support.postgres import PostgresProcess
from tests.support.wait import wait_until
from tests.unit.storage.builders import ALL, NOW_MS, TOPIC_ID, append, append_flushed, batch, small_config
from tests.unit.storage.conftest import NODE_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.storage import Storage


@pytest.fixture(scope="module")
def mortal_postgres() -> Iterator[PostgresProcess]:
    server = PostgresProcess.create()
    yield server
    server.remove()


@pytest.fixture
def own_postgres(mortal_postgres: PostgresProcess) -> Iterator[PostgresProcess]:
    """One that a test may kill."""
    yield mortal_postgres
    if not mortal_postgres.running:
        mortal_postgres.start()


@pytest.fixture
def node() -> int:
    return next(NODE_IDS)


def open_log(storage: Storage, config: LogConfig | None = None, name: str = "t-0") -> PartitionLog:
    return storage.open_log(name, TOPIC_ID, config or LogConfig(), NOW_MS)


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for _, data in log.batches(0, ALL) for record in decode_records(data)]


def rows(server: PostgresProcess, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        return connection.execute(statement, parameters).fetchall()


# Whose database it is


def test_a_second_process_for_the_same_node_is_refused(
    postgres: PostgresProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.postgres.LOCK_S_MAX", 0.2)
    node_id = next(NODE_IDS)
    storage = PostgresStorage.open(postgres.url(), node_id)
    with pytest.raises(StorageError, match=rf"node {node_id} in PostgreSQL .* is in use by penstock node"):
        PostgresStorage.open(postgres.url(), node_id)
    other = PostgresStorage.open(postgres.url(), next(NODE_IDS))
    other.close()
    storage.close()
    PostgresStorage.open(postgres.url(), node_id).close()


def test_identity_and_notes_are_kept(postgres: PostgresProcess) -> None:
    node_id = next(NODE_IDS)
    storage = PostgresStorage.open(postgres.url(), node_id)
    storage.set_cluster_id("c")
    storage.put_note("n", {"a": 1})
    storage.put_note("n", {"a": 2})
    known = storage.storage_id
    storage.close()
    storage = PostgresStorage.open(postgres.url(), node_id)
    assert (storage.storage_id, storage.cluster_id, storage.get_note("n")) == (known, "c", {"a": 2})
    assert storage.get_note("other") is None
    storage.close()


def test_nodes_do_not_see_each_others_logs(postgres: PostgresProcess) -> None:
    first, second = (PostgresStorage.open(postgres.url(), next(NODE_IDS)) for _ in range(2))
    append_flushed(open_log(first), batch([b"first"]))
    append_flushed(open_log(second), batch([b"second"]))
    second.delete_log("t-0")
    assert (len(first.logs()), second.logs()) == (1, [])
    first.close()
    second.close()


def test_who_has_been_replaced_cannot_write(postgres: PostgresProcess) -> None:
    node_id = next(NODE_IDS)
    storage = PostgresStorage.open(postgres.url(), node_id)
    log = open_log(storage)
    append_flushed(log, batch([b"mine"]))
    rows(postgres, "UPDATE penstock.writes SET session = session + 1 WHERE node_id = %s RETURNING 1", node_id)
    append(log, batch([b"late"]))
    log.flush()
    assert "another process has taken over" in str(log.error)
    with pytest.raises(StorageError, match="another process has taken over"):
        storage.put_note("n", 1)
    with pytest.raises(StorageError, match="another process has taken over"):
        storage.close()
    found = PostgresStorage.open(postgres.url(), node_id)
    assert values(open_log(found)) == [b"mine"]
    found.close()


def test_tables_of_a_later_version_are_refused(postgres: PostgresProcess) -> None:
    url = postgres.create_database("later")
    PostgresStorage.open(url, 1).close()
    PostgresStorage.open(url, 1).close()
    with psycopg.connect(url, autocommit=True) as connection:
        later = len(MIGRATIONS) + 1
        connection.execute("INSERT INTO penstock.schema_version (version) VALUES (%s)", (later,))
    with pytest.raises(StorageError, match=rf"has tables of version {later}; this Penstock knows up to"):
        PostgresStorage.open(url, 1)


def test_two_nodes_may_make_the_tables_at_once(postgres: PostgresProcess) -> None:
    url = postgres.create_database("race")
    failures: list[Exception] = []

    def start(node_id: int) -> None:
        try:
            PostgresStorage.open(url, node_id).close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=start, args=(node_id,)) for node_id in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:top-secret@127.0.0.1:1/x",
        "postgresql://me:top-secret@127.0.0.1:nonsense/x",
        "postgresql://me:top-secret@[::1/x",
        "postgresql://me:top-secret@x@127.0.0.1/x",
        "postgresql://127.0.0.1:1/x?password=top-secret&nonsense=1",
    ],
)
def test_no_message_has_the_password_in_it(url: str) -> None:
    with pytest.raises(StorageError) as caught:
        PostgresStorage.open(url, 1)
    line = str(caught.value)
    assert "secret" not in line
    assert "\n" not in line


def test_a_wrong_password_is_one_clear_line(own_postgres: PostgresProcess) -> None:
    with psycopg.connect(own_postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = own_postgres.folder / "data" / "pg_hba.conf"
    rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())
    own_postgres.reload()
    url = own_postgres.url(user="guarded:wrong-one")

    def refusal() -> str:
        try:
            PostgresStorage.open(url, 1)
        except StorageError as error:
            return str(error)
        return ""

    line = wait_until(lambda: refusal() if "password authentication failed" in refusal() else "", "a refusal")
    assert line.startswith("cannot connect to PostgreSQL database postgres on ")
    assert "wrong-one" not in line
    assert "\n" not in line


# When it goes away


class Load:
    """Appends batches of one record with a number, from a thread, as fast as they are flushed."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.acknowledged = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.is_set() and self.log.error is None:
            append(self.log, batch([b"%d" % self.log.log_end_offset]))
            self.log.flush()
            self.acknowledged = self.log.flushed_end_offset

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.acknowledged >= count, f"{count} acknowledged", timeout_s=60)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize("flush", list(Flush))
def test_nothing_acknowledged_is_lost_when_the_database_is_killed(
    own_postgres: PostgresProcess, node: int, flush: Flush
) -> None:
    storage = PostgresStorage.open(own_postgres.url(), node)
    assert storage.begin_running()
    log = open_log(storage, LogConfig(flush=flush, segment_bytes=20_000))
    load = Load(log)
    for _ in range(3):
        load.wait_for(load.acknowledged + 50)
        own_postgres.kill()
        own_postgres.start()
    load.wait_for(load.acknowledged + 50)
    load.end()
    assert log.error is None
    expected = [b"%d" % number for number in range(log.flushed_end_offset)]
    assert values(log) == expected
    storage.close()
    storage = PostgresStorage.open(own_postgres.url(), node)
    assert values(open_log(storage)) == expected, "each once, in order"
    storage.close()


def test_while_it_is_away_reads_and_changes_are_refused_at_once(
    own_postgres: PostgresProcess, node: int
) -> None:
    storage = PostgresStorage.open(own_postgres.url(), node)
    open_log(storage).close()
    log = open_log(storage)
    append_flushed(log, batch([b"a"]))
    own_postgres.kill()
    assert values(log) == [b"a"], "what was written last is at hand"
    log._backend._cache.forget(log._backend.log_id)  # type: ignore[attr-defined]
    for _ in range(3):
        with pytest.raises(StorageError, match="cannot read"):
            log.read(0, 1000, end_offset=ALL)
        with pytest.raises(StorageError):
            log.put_note("n", 1)
        with pytest.raises(StorageError):
            log.truncate_to(0)
    assert log.error is None, "it is not the log that is at fault"
    own_postgres.start()
    wait_until(lambda: reads(log), "reads resume")
    log.put_note("n", 1)
    log.truncate_to(0)
    assert append_flushed(log, batch([b"b"])) == 0
    storage.close()


def reads(log: PartitionLog) -> bool:
    try:
        return bool(log.read(0, 1000, end_offset=ALL))
    except StorageError:
        return False


def test_a_restart_between_two_reads_goes_unnoticed(own_postgres: PostgresProcess, node: int) -> None:
    storage = PostgresStorage.open(own_postgres.url(), node)
    log = open_log(storage)
    append_flushed(log, batch([b"a"]))
    own_postgres.kill()
    own_postgres.start()
    log._backend._cache.forget(log._backend.log_id)  # type: ignore[attr-defined]
    assert values(log) == [b"a"]
    storage.put_note("n", 1)
    append_flushed(log, batch([b"b"]))
    assert values(log) == [b"a", b"b"]
    storage.close()


def test_appends_are_refused_once_it_has_been_away_for_long(
    own_postgres: PostgresProcess, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "PATIENCE_S", 0.2)
    storage = PostgresStorage.open(own_postgres.url(), node)
    log = open_log(storage)
    append_flushed(log, batch([b"a"]))
    own_postgres.kill()
    append(log, batch([b"b"]))
    job = log.take_flush()
    assert job is not None
    writing = threading.Thread(target=job.run)
    writing.start()

    def refused() -> bool:
        try:
            append(log, batch([b"c"]))
        except StorageError as error:
            return "is away" in str(error)
        return False

    wait_until(refused, "a refusal")
    own_postgres.start()
    writing.join()
    log.finish_flush(job)
    wait_until(lambda: not refused(), "appends resume")
    log.flush()
    assert values(log)[:2] == [b"a", b"b"]
    assert log.error is None
    storage.close()


def test_a_node_that_stops_does_not_wait_for_ever(
    own_postgres: PostgresProcess, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "STOPPING_S", 0.1)
    storage = PostgresStorage.open(own_postgres.url(), node)
    log = open_log(storage)
    append_flushed(log, batch([b"a"]))
    own_postgres.kill()
    append(log, batch([b"b"]))
    storage.stopping()
    log.flush()
    assert "cannot write to PostgreSQL" in str(log.error)
    with pytest.raises(StorageError):
        storage.close()
    own_postgres.start()
    storage = PostgresStorage.open(own_postgres.url(), node)
    assert values(open_log(storage)) == [b"a"]
    storage.close()


def test_a_commit_that_came_through_is_not_repeated(
    postgres: PostgresProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = PostgresStorage.open(postgres.url(), next(NODE_IDS))
    writer = storage._writer
    log = open_log(storage)
    store = writer._store
    losses = iter(["after", "before", "after", None])

    def lossy(group: postgres_writer._Group) -> None:
        loss = next(losses, None)
        if loss != "before":
            store(group)
        if loss is not None:
            raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(writer, "_store", lossy)
    for number in range(4):
        append_flushed(log, batch([b"%d" % number]))
    assert values(log) == [b"0", b"1", b"2", b"3"]
    storage.close()


GATE = """
CREATE FUNCTION pass_the_gate() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1);
    RETURN true;
END $$;
ALTER TABLE penstock.writes RENAME TO writes_behind_the_gate;
CREATE VIEW penstock.writes AS SELECT * FROM penstock.writes_behind_the_gate WHERE pass_the_gate();
"""
"""Who reads the number of the last group commit has its snapshot, and then waits while the gate is locked."""


def test_a_commit_that_comes_through_while_another_connection_is_made_is_not_repeated(
    own_postgres: PostgresProcess, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = own_postgres.create_database(f"late_commit_{node}")
    storage = PostgresStorage.open(url, node)
    log, writer = open_log(storage), storage._writer
    append_flushed(log, batch([b"a"]))
    store, connect, old, tries = writer._store, writer._database.connect, writer._connection, list[None]()
    assert old is not None

    def counting() -> object:
        tries.append(None)
        return connect()

    with psycopg.connect(url, autocommit=True) as gate:
        gate.execute(GATE)

        def lost_before_the_commit(group: postgres_writer._Group) -> None:
            monkeypatch.setattr(writer, "_store", store)
            execute = old.execute
            monkeypatch.setattr(old, "execute", lambda text, *rest: text == "COMMIT" or execute(text, *rest))
            store(group)
            monkeypatch.undo()
            monkeypatch.setattr(writer._database, "connect", counting)
            gate.execute("SELECT pg_advisory_lock(1)")
            writer._connection = None  # the server has not noticed yet
            raise psycopg.OperationalError("the connection is lost")

        monkeypatch.setattr(writer, "_store", lost_before_the_commit)
        append(log, batch([b"b"]))
        flush = threading.Thread(target=log.flush)
        flush.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: len(tries) > 1 or gate.execute(waiting).fetchone() == (1,), "a new connection")
        old.execute("COMMIT")
        old.close()
        # Of the locks with two keys: the gate's has one, which may be the number of the node.
        held = "SELECT count(*) FROM pg_locks WHERE objsubid = 2 AND objid = %s::bigint::oid"
        wait_until(
            lambda: gate.execute(held, (node,)).fetchone() == (0,) or len(tries) > 1, "an end of the old one"
        )
        gate.execute("SELECT pg_advisory_unlock(1)")
        flush.join()
    assert log.error is None
    assert values(log) == [b"a", b"b"]
    storage.close()


def test_a_database_that_went_back_in_time_is_not_written_to(postgres: PostgresProcess) -> None:
    node_id = next(NODE_IDS)
    storage = PostgresStorage.open(postgres.url(), node_id)
    log = open_log(storage)
    append_flushed(log, batch([b"a"]))
    append_flushed(log, batch([b"b"]))
    rows(
        postgres,
        "UPDATE penstock.writes SET number = number - 1 WHERE node_id = %s RETURNING pg_terminate_backend("
        "(SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s::bigint::oid))",
        node_id,
        node_id,
    )
    append(log, batch([b"c"]))
    log.flush()
    assert "has lost writes that it had confirmed" in str(log.error)
    storage.close()


def test_what_is_wrong_with_one_log_is_not_the_others_fault(postgres: PostgresProcess) -> None:
    storage = PostgresStorage.open(postgres.url(), next(NODE_IDS))
    good, bad = open_log(storage), open_log(storage, name="t-1")
    for log in (good, bad):
        append(log, batch())
    rows(
        postgres,
        "INSERT INTO penstock.segments (log_id, base_offset) VALUES (%s, 0) RETURNING 1",
        bad._backend.log_id,  # type: ignore[attr-defined]
    )
    jobs = [log.take_flush() for log in (good, bad)]
    writer = storage._writer
    writer._is_busy = True  # both wait, and so end up in one group
    threads = [threading.Thread(target=job.run) for job in jobs if job is not None]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(writer._queue) == 2, "two requests")
    with writer._condition:
        writer._is_busy = False
        writer._condition.notify_all()
    for thread in threads:
        thread.join()
    assert [job is not None and job.error is not None for job in jobs] == [False, True]
    for log, job in zip((good, bad), jobs, strict=True):
        assert job is not None
        log.finish_flush(job)
    assert (good.flushed_end_offset, bad.flushed_end_offset) == (1, 0)
    storage.close()


# What a crash of both may lose


def test_a_crash_of_both_is_told_until_an_orderly_end(own_postgres: PostgresProcess, node: int) -> None:
    def open_and_leave(*, orderly: bool) -> bool:
        storage = PostgresStorage.open(own_postgres.url(), node)
        survived = storage.begin_running()
        if orderly:
            storage.close()
        else:
            storage._owner.close()
            storage._writer.close()
        return survived

    assert open_and_leave(orderly=False)
    assert open_and_leave(orderly=False), "the process alone"
    own_postgres.kill()
    own_postgres.start()
    assert not open_and_leave(orderly=False)
    assert not open_and_leave(orderly=True), "still"
    assert open_and_leave(orderly=True)


def test_unsynced_writes_are_kept_only_up_to_a_size(
    postgres: PostgresProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "KEPT_BYTES", 5_000)
    storage = PostgresStorage.open(postgres.url(), next(NODE_IDS))
    log = open_log(storage, LogConfig(flush=Flush.OS))
    sizes = []
    for _ in range(20):
        append_flushed(log, batch([b"x" * 1000]))
        sizes.append(sum(group.size for group in storage._writer._kept))
    assert 0 < max(sizes) <= 5_000
    assert sizes.count(0) >= 3
    storage.close()


# Chunks


def halves(*batches: bytes) -> list[memoryview]:
    return [part for each in batches for part in (memoryview(each)[:16], memoryview(each)[16:])]


def test_small_batches_of_one_flush_share_a_row(postgres: PostgresProcess) -> None:
    storage = PostgresStorage.open(postgres.url(), next(NODE_IDS))
    log = open_log(storage)
    for _ in range(100):
        append(log, batch([b"x"]))
    log.flush()
    log_id = log._backend.log_id  # type: ignore[attr-defined]
    ends = "SELECT base_offset, last_offset FROM penstock.chunks WHERE log_id = %s"
    assert rows(postgres, ends, log_id) == [(0, 99)]
    log.truncate_to(40)
    assert rows(postgres, ends, log_id) == [(0, 39)]
    storage.close()


def test_chunks_are_whole_batches_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    one = batch([b"x" * 100])
    monkeypatch.setattr(postgres_chunks, "CHUNK_BYTES", 3 * len(one))
    assert [chunk.size // len(one) for chunk in chunks_of(halves(*[one] * 7))] == [3, 3, 1]
    large = batch([b"x" * 1000])
    assert [chunk.size for chunk in chunks_of(halves(one, large, one))] == [len(one), len(large), len(one)]
    assert list(chunks_of([])) == []


def test_a_chunk_from_the_database_is_what_it_was() -> None:
    (made,) = chunks_of(halves(batch([b"a", b"b"], timestamp=5), batch([b"c"], timestamp=3)))
    found = Chunk.parse(made.data)
    for chunk in (made, found):
        assert (chunk.lasts.tolist(), chunk.positions[0]) == ([1, 0], 0)
        assert (chunk.first_timestamp, chunk.max_timestamp) == (5, 5)
    for damaged in (b"", made.data[:-1], made.data[:30], bytes(100)):
        with pytest.raises(StorageError, match="chunk"):
            Chunk.parse(damaged)


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    def chunk(offset: int) -> Chunk:
        made = Chunk(bytes(100))
        made.add(offset, offset + 9, 0, 0)
        return made

    cache = ChunkCache(350)
    cache.put(1, [chunk(0), chunk(10), chunk(20)])
    assert [each.base_offset for each in cache.get(1, 3, 200)] == [0, 10]
    cache.put(2, [chunk(0)])
    assert cache.get(1, 25, 1) == []
    assert [each.base_offset for each in cache.get(1, 0, 1000)] == [0, 10]
    cache.put(1, [chunk(40)])
    assert cache.get(2, 0, 1) == []
    assert [each.base_offset for each in cache.get(1, 0, 1000)] == [0, 10], "not beyond the gap"
    cache.forget(1)
    assert cache.get(1, 0, 1) == []


def test_tailing_readers_do_not_ask_the_database(postgres: PostgresProcess) -> None:
    storage = PostgresStorage.open(postgres.url(), next(NODE_IDS))
    log = open_log(storage, small_config())
    asked = 0
    query = storage._owner.query

    def counting(*arguments: object) -> object:
        nonlocal asked
        asked += 1
        return query(*arguments)  # type: ignore[arg-type]

    storage._owner.query = counting  # type: ignore[method-assign, assignment]
    for number in range(30):
        append_flushed(log, batch([b"%d" % number]))
        assert log.read(number, 1000, end_offset=ALL)
    assert asked == 0
    storage.close()


def test_time_of_an_outage_is_not_spent_in_a_busy_loop(
    own_postgres: PostgresProcess, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = PostgresStorage.open(own_postgres.url(), node, give_up_s=1.0)
    log = open_log(storage)
    tries = 0
    connect = storage._writer._database.connect

    def counting(**changes: int) -> object:
        nonlocal tries
        tries += 1
        return connect(**changes)

    monkeypatch.setattr(storage._writer._database, "connect", counting)
    own_postgres.kill()
    append(log, batch())
    began = time.monotonic()
    log.flush()
    assert log.error is not None
    assert time.monotonic() - began >= 1.0
    assert 2 <= tries <= 12
    with pytest.raises(StorageError):
        storage.close()
    own_postgres.start()


# Old chunks


def chunk_count(server: PostgresProcess, log_id: int) -> int:
    found = rows(server, "SELECT count(*) FROM penstock.chunks WHERE log_id = %s", log_id)
    return int(str(found[0][0]))


def test_what_is_dropped_leaves_the_database_too(postgres: PostgresProcess, node: int) -> None:
    storage = PostgresStorage.open(postgres.url(), node)
    log = open_log(storage, small_config(retention_bytes=3000))
    for _ in range(100):
        append_flushed(log, batch([b"x" * 90]))
    log_id = log._backend.log_id  # type: ignore[attr-defined]
    assert log.apply_retention(now_ms=NOW_MS, high_watermark=ALL)
    kept = 100 - log.log_start_offset
    wait_until(lambda: chunk_count(postgres, log_id) == kept, "old chunks are gone")
    storage.delete_log("t-0")
    wait_until(lambda: chunk_count(postgres, log_id) == 0, "all are gone")
    doomed = "SELECT FROM penstock.doomed WHERE node_id = %s"
    wait_until(lambda: not rows(postgres, doomed, node), "none is doomed any more")
    storage.close()


def test_new_chunks_in_the_place_of_doomed_ones_stay(
    postgres: PostgresProcess, node: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.postgres_reaper.Reaper.wake", lambda _: None)
    storage = PostgresStorage.open(postgres.url(), node)
    log = open_log(storage, small_config(retention_bytes=500))
    for _ in range(50):
        append_flushed(log, batch([b"old" * 30]))
    log_id = log._backend.log_id  # type: ignore[attr-defined]
    assert log.apply_retention(now_ms=NOW_MS, high_watermark=ALL)
    log.truncate_to(10)
    for _ in range(10):
        append_flushed(log, batch([b"new"]))
    assert values(log) == [b"new"] * 10
    monkeypatch.undo()
    storage.close()
    storage = PostgresStorage.open(postgres.url(), node)
    wait_until(lambda: chunk_count(postgres, log_id) == 10, "old chunks are gone")
    log = open_log(storage, small_config())
    assert (log.log_start_offset, values(log)) == (10, [b"new"] * 10)
    storage.close()


# Compaction


def compacting_log(storage: PostgresStorage) -> PartitionLog:
    log = open_log(storage, small_config(compact=True, delete=False, min_cleanable_dirty_ratio=0.0))
    for number in range(60):
        append_flushed(log, batch([b"%d" % number], keys=[b"key-%d" % (number % 3)]))
    return log


def staged(server: PostgresProcess, node: int) -> int:
    return len(rows(server, "SELECT FROM penstock.staged WHERE node_id = %s", node))


def test_compacted_chunks_take_the_place_of_the_old_ones(postgres: PostgresProcess, node: int) -> None:
    storage = PostgresStorage.open(postgres.url(), node)
    log = compacting_log(storage)
    log_id = log._backend.log_id  # type: ignore[attr-defined]
    before = values(log)
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    result = run_compaction(plan)
    assert (staged(postgres, node), values(log)) == (1, before), "nothing has changed yet"
    change = storage._owner.change
    storage._owner.change = lambda *given: (change(*given), change(*given))[0]  # type: ignore[method-assign]
    log.finish_compaction(result)  # as if the outcome of the first try had been lost
    storage._owner.change = change  # type: ignore[method-assign]
    kept = values(log)
    assert 3 <= len(kept) < 60
    assert kept[-3:] == before[-3:]
    assert staged(postgres, node) == 0
    stored = "SELECT FROM penstock.doomed WHERE node_id = %s"
    wait_until(lambda: not rows(postgres, stored, node), "old chunks are gone")
    assert chunk_count(postgres, log_id) <= len(kept)
    storage.close()
    storage = PostgresStorage.open(postgres.url(), node)
    assert values(open_log(storage)) == kept
    storage.close()


def test_what_a_compaction_leaves_goes_at_once_or_with_the_next_start(
    postgres: PostgresProcess, node: int
) -> None:
    storage = PostgresStorage.open(postgres.url(), node)
    log = compacting_log(storage)
    before = values(log)
    for _ in range(2):
        plan = log.compaction_plan(NOW_MS, ALL)
        assert plan is not None
        run_compaction(plan)
    assert staged(postgres, node) == 2
    log.discard_compaction(plan)
    assert staged(postgres, node) == 1
    storage.close()
    storage = PostgresStorage.open(postgres.url(), node)
    assert staged(postgres, node) == 0
    assert values(open_log(storage)) == before
    storage.close()


def test_a_compaction_that_fails_leaves_nothing(postgres: PostgresProcess, node: int) -> None:
    storage = PostgresStorage.open(postgres.url(), node)
    log = compacting_log(storage)
    log_id = log._backend.log_id  # type: ignore[attr-defined]
    rows(
        postgres,
        "UPDATE penstock.chunks SET batches = set_byte(batches, 65, 0) WHERE log_id = %s AND base_offset = 5"
        " RETURNING 1",
        log_id,
    )
    plan = log.compaction_plan(NOW_MS, ALL)
    assert plan is not None
    with pytest.raises(StorageError, match="cannot compact t-0"):
        run_compaction(plan)
    assert staged(postgres, node) == 0
    storage.close()


def test_acknowledged_means_on_disk_whatever_the_servers_default_is(
    postgres: PostgresProcess, node: int
) -> None:
    url = postgres.create_database("lax")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER DATABASE lax SET synchronous_commit = off")
    storage = PostgresStorage.open(url, node)
    log = open_log(storage)
    modes = []
    for flush in (Flush.COMMIT, Flush.OS, Flush.COMMIT):
        log.reconfigure(LogConfig(flush=flush))
        append_flushed(log, batch())
        writing = storage._writer._connection
        assert writing is not None
        modes.append(writing.execute("SHOW synchronous_commit").fetchone())
    assert modes == [("on",), ("off",), ("on",)]
    assert storage._owner.query("look", "SELECT current_setting('synchronous_commit')", ()) == [("on",)]
    storage.close()
