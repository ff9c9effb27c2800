"""One node as a process: open the storage, run the broker until a signal, stop cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import uvloop

from penstock.broker import node_status, service_manager
from penstock.broker.admin import AdminServer
from penstock.broker.broker import Broker
from penstock.broker.lifecycle import DecommissionedError
from penstock.config import MIB
from penstock.storage import FileStorage, MemoryStorage, Storage, StorageError, running_mark
from penstock.storage.cluster_ids import new_cluster_id

if TYPE_CHECKING:
    from penstock.config import NodeConfig

OnReady = Callable[[str, str | None], None]
"""Called once with the Kafka address and the HTTP address when the node serves."""

Beside = Callable[[str, str], contextlib.AbstractAsyncContextManager[str]]
"""Something that runs beside the node, given its Kafka and HTTP addresses; the HTTP address to be told."""

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

SWITCH_INTERVAL_S: Final = 0.0005
"""A writer thread that has done its system call waits at most this long for the GIL; Python's default of
5 ms would be most of an acknowledgement's latency."""

DATABASE_AWAY_S_MAX: Final = 60.0
"""A node of several whose database is away for longer leaves its work to the others."""

GC_ALLOCATIONS: Final = 20_000
"""Between two collections. Requests leave no cycles behind, so they would find nothing most of the time."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Let the C library keep what requests and answers free, instead of giving it back each time.

    They are a megabyte each and come by the hundred per second. By default glibc maps and unmaps such a block
    every time, and the kernel clears it page by page: on a busy broker that was a third of all CPU time.
    Other C libraries do not have the call, and do without.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 32 * MIB)
        mallopt(M_TRIM_THRESHOLD, 64 * MIB)


def open_storage(config: NodeConfig) -> Storage:
    if config.storage == "memory":
        cluster_id = config.cluster_id or (new_cluster_id() if config.is_alone else "")
        return MemoryStorage(uuid.uuid4(), node_id=config.node_id, cluster_id=cluster_id)
    storage: Storage
    if config.storage == "file":
        storage, place = FileStorage.open(config.data, node_id=config.node_id), str(config.data)
    else:
        storage, place = open_postgres(config)
    if config.cluster_id and storage.cluster_id not in ("", config.cluster_id):
        storage.close()
        raise StorageError(f"{place} belongs to cluster {storage.cluster_id}, not to {config.cluster_id}")
    if not storage.cluster_id and (config.cluster_id or config.is_alone):
        # In a cluster of several nodes a new one learns it from the others.
        storage.set_cluster_id(config.cluster_id or new_cluster_id())
    return storage


def open_postgres(config: NodeConfig) -> tuple[Storage, str]:
    from penstock.storage.postgres import PostgresStorage  # most nodes have no need of its driver

    # Alone there is nobody to leave the work to, so writes wait for as long as the database is away.
    give_up_s = None if config.is_alone else DATABASE_AWAY_S_MAX
    storage = PostgresStorage.open(config.storage, config.node_id, give_up_s=give_up_s)
    return storage, storage.place


def run_node(
    config: NodeConfig,
    on_ready: OnReady,
    beside: Beside | None = None,
    listening: socket.socket | None = None,
) -> None:
    """Run until SIGINT or SIGTERM. StorageError and OSError say why the node cannot start.

    `listening`: the socket for Kafka clients, if it is open already.
    """
    logging.basicConfig(
        level=config.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    keep_freed_memory()
    gc.freeze()  # what is imported by now stays; the collector need not look at it ever again
    gc.set_threshold(GC_ALLOCATIONS)
    storage = open_storage(config)
    page_cache_survived = begin_running(config, storage)
    try:
        uvloop.run(
            serve(
                config,
                storage,
                on_ready,
                beside,
                page_cache_survived=page_cache_survived,
                listening=listening,
            )
        )
    finally:
        # The loop that handled signals is gone, and what is left must be finished.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        storage.close()
    if config.storage == "file":
        running_mark.end(config.data)


def begin_running(config: NodeConfig, storage: Storage) -> bool:
    """Leave a mark. Whether what the last process acknowledged without a sync is there, if it was needed."""
    if config.storage == "file":
        return running_mark.begin(config.data)
    if config.storage == "memory":
        return True
    from penstock.storage.postgres import PostgresStorage

    assert isinstance(storage, PostgresStorage)
    return storage.begin_running()


async def serve(
    config: NodeConfig,
    storage: Storage,
    on_ready: OnReady,
    beside: Beside | None,
    *,
    page_cache_survived: bool,
    listening: socket.socket | None,
) -> None:
    """Run until a signal. Raises what keeps the node from going on."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    broker = Broker(config, storage, page_cache_survived=page_cache_survived, listening=listening)
    # Before the broker joins a cluster, which would count on it.
    admin = None
    if config.http_port is not None:
        admin = AdminServer(broker)
        admin.bind()
    stopping = loop.create_task(stop.wait())
    starting = loop.create_task(broker.start())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            await serve_until(stopping, broker, admin, on_ready, beside)
    finally:
        if admin is not None:
            await admin.stop()
        storage.stopping()
        stopping.cancel()
        if not starting.done():  # in a cluster it may wait for the others for long
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        await broker.stop()


async def serve_until(
    stopping: asyncio.Task[bool],
    broker: Broker,
    admin: AdminServer | None,
    on_ready: OnReady,
    beside: Beside | None,
) -> None:
    config = broker.config
    tells_status = config.storage == "file" or config.supervisor is not None
    try:
        http_url = await admin.start() if admin is not None else None
        host = f"[{config.host}]" if ":" in config.host else config.host
        kafka = f"{host}:{broker.port}"
        if tells_status:
            node_status.write(
                config.data,
                node_id=config.node_id,
                kafka=kafka,
                http=http_url,
                started_at_ms=broker.started_at_ms,
                start_s=broker.start_phases.seconds,
            )
        ends: list[asyncio.Future[Any]] = [stopping, broker.failure]
        async with contextlib.AsyncExitStack() as stack:
            if beside is not None and http_url is not None:
                http_url = await unless_ended(stack.enter_async_context(beside(kafka, http_url)), ends)
            if not any(each.done() for each in ends):
                on_ready(kafka, http_url)
                stack.enter_context(
                    service_manager.of_node(has_supervisor=config.supervisor is not None).told()
                )
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if broker.failure.done():
            error = broker.failure.result()
            if not isinstance(error, DecommissionedError):
                raise error
            broker.log.warning("%s; stopping", error)  # as asked, with nothing left to do
    finally:
        if tells_status:
            node_status.remove(config.data)


async def unless_ended(work: Coroutine[Any, Any, str], ends: list[asyncio.Future[Any]]) -> str | None:
    """What the work gives; None if one of the ends came first."""
    task = asyncio.get_running_loop().create_task(work)
    await asyncio.wait([task, *ends], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return None
