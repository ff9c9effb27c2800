"""One node as a process: open the storage, run the broker until a signal, stop cleanly."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ctypes
import gc
import logging
import signal
import sys
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import uvloop

from penstock.broker.admin import AdminServer
from penstock.broker.broker import Broker
from penstock.config import MIB
from penstock.storage import FileStorage, MemoryStorage, Storage

if TYPE_CHECKING:
    from penstock.config import NodeConfig

OnReady = Callable[[str, str | None], None]
"""Called once with the Kafka address and the HTTP address when the node serves."""

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

SWITCH_INTERVAL_S: Final = 0.0005
"""A writer thread that has done its system call waits at most this long for the GIL; Python's default of
5 ms would be most of an acknowledgement's latency."""

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
        return MemoryStorage(uuid.uuid4(), node_id=config.node_id, cluster_id=new_cluster_id())
    storage = FileStorage.open(config.data, node_id=config.node_id)
    if not storage.cluster_id:
        storage.set_cluster_id(new_cluster_id())
    return storage


def new_cluster_id() -> str:
    """22 letters, as Kafka writes its own."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def run_node(config: NodeConfig, on_ready: OnReady) -> None:
    """Run until SIGINT or SIGTERM. StorageError and OSError say why the node cannot start."""
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
    try:
        uvloop.run(serve(config, storage, on_ready))
    finally:
        # The loop that handled signals is gone, and what is left must be finished.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        storage.close()


async def serve(config: NodeConfig, storage: Storage, on_ready: OnReady) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    broker = Broker(config, storage)
    await broker.start()
    admin = AdminServer(broker) if config.http_port is not None else None
    try:
        http_url = await admin.start() if admin is not None else None
        host = f"[{config.host}]" if ":" in config.host else config.host
        on_ready(f"{host}:{broker.port}", http_url)
        await stop.wait()
    finally:
        if admin is not None:
            await admin.stop()
        await broker.stop()
