"""The broker: its parts, put together, started and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from penstock.broker.group_coordinator import GroupCoordinator
from penstock.broker.handlers import load_handlers
from penstock.broker.housekeeper import Housekeeper
from penstock.broker.memory import MemoryBudget
from penstock.broker.metrics import Metrics
from penstock.broker.partitions import Partitions
from penstock.broker.server import Server, bind
from penstock.broker.writers import WriterThreads
from penstock.controller.local import LocalController
from penstock.wire.registry import Registry

if TYPE_CHECKING:
    from penstock.config import NodeConfig
    from penstock.storage import Storage


class Broker:
    """Everything a handler may reach. Created on the event loop that will run it."""

    log = logging.getLogger("penstock.broker")

    def __init__(self, config: NodeConfig, storage: Storage) -> None:
        self.config = config
        self.storage = storage
        self.metrics = Metrics()
        self.memory = MemoryBudget(config.limits.total_bytes_max)
        self.registry = Registry(load_handlers())
        self.writers = WriterThreads(asyncio.get_running_loop())
        self.controller = LocalController(storage, config, now_ms=self.now_ms)
        self.partitions = Partitions(self)
        self.groups = GroupCoordinator(self)
        self._housekeeper = Housekeeper(self)
        self._server = Server(self)
        self.started_at_ms = self.now_ms()
        self.port = config.port

    @property
    def cluster_id(self) -> str:
        return self.storage.cluster_id

    @property
    def connection_count(self) -> int:
        return self._server.count

    @staticmethod
    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    async def start(self) -> None:
        """Recover, then serve. The port is taken first, so that a taken one harms nothing."""
        listening = bind(self.config.host, self.config.port)
        try:
            self.port = listening.getsockname()[1]
            await self.controller.start(port=self.config.advertised_port or self.port)
            await self.partitions.open_all(self.controller.image)
            self.controller.subscribe(self.partitions.apply)
            await self.groups.start()
        except BaseException:
            listening.close()
            raise
        await self._server.listen(listening)
        self._housekeeper.start()

    async def stop(self) -> None:
        """Stop serving, flush everything, leave the data folder as after a clean stop."""
        await self._server.close()
        await self._housekeeper.stop()
        await self.groups.stop()
        await self.partitions.close()
        await self.controller.stop()
        self.writers.close()
