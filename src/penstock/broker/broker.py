"""A node: its parts, put together, started and stopped in order.

A node with the role of a controller alone has the same parts and never registers as a broker, so that it
holds no partitions and clients do not learn of it. A node with both roles goes on like that when its broker
was decommissioned.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from penstock.broker import node_status
from penstock.broker.agreement import Agreement
from penstock.broker.controller_channel import ControllerChannel
from penstock.broker.damaged_logs import DamagedLogs
from penstock.broker.fencings import Fencings
from penstock.broker.group_coordinator import GroupCoordinator
from penstock.broker.handlers import load_handlers
from penstock.broker.housekeeper import Housekeeper
from penstock.broker.in_sync_sets import InSyncSets
from penstock.broker.lifecycle import DecommissionedError, Lifecycle
from penstock.broker.load_meter import LoadMeter
from penstock.broker.lost_replicas import LostReplicas
from penstock.broker.memory import MemoryBudget
from penstock.broker.metrics import Metrics
from penstock.broker.partition import Surroundings
from penstock.broker.partitions import Partitions
from penstock.broker.replica_fetcher import ReplicaFetchers
from penstock.broker.scrubber import Scrubber
from penstock.broker.server import Server
from penstock.broker.start_phases import StartPhases
from penstock.broker.supervisor_watch import watch_supervisor
from penstock.broker.transaction_coordinator import TransactionCoordinator
from penstock.broker.writers import WriterThreads
from penstock.controller.controller import Controller
from penstock.controller.producer_ids import ProducerIds
from penstock.listening import bind
from penstock.peers.peers import NODE_CLIENT_ID, Address, Peers
from penstock.storage.cluster_ids import new_cluster_id
from penstock.wire.exchange import load_exchange
from penstock.wire.registry import Registry

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine

    from penstock.config import NodeConfig
    from penstock.metadata.image import MetadataDelta
    from penstock.storage import Storage


class Broker:
    """Everything a handler may reach. Created on the event loop that will run it."""

    log = logging.getLogger("penstock.broker")

    def __init__(
        self,
        config: NodeConfig,
        storage: Storage,
        *,
        page_cache_survived: bool = True,
        listening: socket.socket | None = None,
    ) -> None:
        """`page_cache_survived`: what this node's last process wrote and did not sync is there, if needed.

        `listening`: the socket for Kafka clients, if it is open already.
        """
        self.config = config
        self.storage = storage
        self.metrics = Metrics()
        self.memory = MemoryBudget(config.limits.total_bytes_max)
        self.registry = Registry(load_handlers())
        self._loop = asyncio.get_running_loop()
        self.writers = WriterThreads(self._loop)
        self.failure: asyncio.Future[Exception] = self._loop.create_future()
        """Set when the node cannot go on."""
        self.surroundings = Surroundings(
            config.node_id,
            self.writers,
            self.metrics,
            self.now_ms,
            self.monotonic_ms,
            config.cluster.replica_lag_ms_max,
            lambda: self.partitions.look_soon(),  # they come later
        )
        self.peers = Peers(f"{NODE_CLIENT_ID}{config.node_id}", self._find_node)
        self.controller = Controller(
            storage,
            config,
            self.peers,
            now_ms=self.now_ms,
            new_cluster_id=new_cluster_id,
            on_failure=self._fail,
        )
        self.channel = ControllerChannel(self.controller, config, self.peers)
        self.lost_replicas = LostReplicas(storage, config.node_id, page_cache_survived=page_cache_survived)
        self.damaged_logs = DamagedLogs(storage)
        self.lifecycle = Lifecycle(
            config,
            storage,
            self.controller,
            self.channel,
            # Under flush=commit what was acknowledged is on disk, however the last process ended; topics with
            # a flush policy of their own are looked at one by one.
            is_clean=page_cache_survived or config.flush == "commit",
            on_failure=self._leave,
            offline=lambda: self.partitions.offline,
            load=lambda: self.load_meter.report(),  # it comes later
        )
        self.producer_ids = ProducerIds(
            lambda count: self.channel.allocate_producer_ids(self.lifecycle.broker_epoch, count)
        )
        self.fetchers = ReplicaFetchers(
            config.node_id,
            self.peers,
            config.cluster,
            cluster_id=lambda: self.cluster_id,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            now_ms=self.now_ms,
        )
        self.partitions = Partitions(self)
        self.load_meter = LoadMeter(
            config.data if config.storage == "file" else None, self.partitions.__iter__
        )
        self.in_sync_sets = InSyncSets(
            self.partitions,
            self.controller,
            self.channel,
            node_id=config.node_id,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            monotonic_ms=self.monotonic_ms,
        )
        self.fencings = Fencings(self.monotonic_ms)
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self._watch: asyncio.Task[None] | None = None
        self._probes: set[asyncio.Task[None]] = set()
        agreement = Agreement(config.node_id, self.peers, self.damaged_logs, self.metrics)
        self.scrubber = Scrubber(config, self.partitions, self.metrics, agreement)
        self._housekeeper = Housekeeper(self)
        self._server = Server(self)
        self.started_at_ms = self.now_ms()
        self.start_phases = StartPhases(node_status.process_age_s(), self._loop.time)
        self.port = config.port
        self._listening = listening

    @property
    def cluster_id(self) -> str:
        return self.storage.cluster_id

    @property
    def connection_count(self) -> int:
        return self._server.count

    @staticmethod
    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def knows_node(self, node_id: int) -> bool:
        return self._find_node(node_id) is not None

    def _find_node(self, node_id: int) -> Address | None:
        """Controllers are where the configuration says, brokers where they registered."""
        controller = self.config.controllers.get(node_id)
        if controller is not None:
            return Address(*controller)
        broker = self.controller.image.brokers.get(node_id)
        return None if broker is None else Address(broker.host, broker.port)

    def _fail(self, error: Exception) -> None:
        if not self.failure.done():
            self.failure.set_result(error)

    def _leave(self, error: Exception) -> None:
        """The broker is not let in any more. As a controller the node may still be needed."""
        if isinstance(error, DecommissionedError):
            self._tell_supervisor()
            if self.config.is_controller:
                self.log.warning("%s; the node goes on as a controller", error)
                return
        self._fail(error)

    def _tell_supervisor(self) -> None:
        if self.config.supervisor is None:
            return
        try:
            node_status.mark_decommissioned(self.config.data)
        except OSError as error:
            self.log.error("that the broker was decommissioned cannot be written: %s", error)

    async def start(self) -> None:
        """Recover, then serve. The port is taken first, so that a taken one harms nothing.

        Alone, a node serves when everything is there. In a cluster it must be heard by the others before.
        """
        listening = self._listening or bind(self.config.host, self.config.port)
        try:
            self.port = listening.getsockname()[1]
            await self.controller.start()
            if not self.config.is_alone:
                self._load_exchanges()
                await self._server.listen(listening)
            if self.config.supervisor is not None and self.config.is_controller:
                watch = watch_supervisor(self.config.supervisor, self.controller)
                self._watch = self._loop.create_task(watch)
            if self.config.is_broker:
                await self._start_broker()
        except BaseException:
            listening.close()
            raise
        if self.config.is_alone:
            await self._server.listen(listening)
        self._housekeeper.start()

    def _load_exchanges(self) -> None:
        """What nodes say to each other, before anything is said: it must not come late for the first time."""
        for handler in self.registry.between_nodes():
            version = handler.versions[-1]
            handler.codec(version)
            load_exchange(handler.key, version)

    async def until_served(self) -> None:
        """Wait until the controller has let this process in, which is soon, or for as long as it may take to
        reach a controller."""
        if not self.config.is_broker or self.lifecycle.is_decommissioned or self.lifecycle.has_served:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.cluster.controller_request_ms_max / 1000):
                await self.lifecycle.until_unfenced()

    async def _start_broker(self) -> None:
        config = self.config
        host, port = config.advertised_host or config.host, config.advertised_port or self.port
        try:
            await self._unless_failed(self.lifecycle.register(host, port))
        except DecommissionedError as error:
            self._leave(error)
            if config.is_controller:
                return
            raise
        self.start_phases.passed("until registered")
        self.controller.subscribe(self._look_for_fencings)
        self.controller.subscribe(self.partitions.apply)
        await self.controller.begin(self.partitions.open_all)
        if self.lost_replicas.found and not config.is_alone:
            await self._unless_failed(self.lifecycle.register_as_damaged())
        await self.groups.start()
        await self.transactions.start()
        self.start_phases.passed("to open its logs")
        self.load_meter.start()
        self.lifecycle.start()
        if not config.is_alone:
            self.in_sync_sets.start()
        await self._unless_failed(self.lifecycle.until_unfenced())
        self.start_phases.passed("until in service")

    def _look_for_fencings(self, delta: MetadataDelta) -> None:
        for broker_id in delta.brokers:
            broker = self.controller.image.brokers.get(broker_id)
            self.fencings.note(broker_id, is_fenced=broker is not None and broker.fenced)

    async def _unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        waiting: list[asyncio.Future[Any]] = [task, self.failure]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            raise self.failure.result()
        task.result()

    def connection_lost(self, broker_id: int, broker_epoch: int) -> None:
        """The connection over which a broker sent its heartbeats is gone."""
        if self.controller.is_active:
            task = self._loop.create_task(self.controller.active.connection_lost(broker_id, broker_epoch))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    async def stop(self) -> None:
        """Stop serving, flush everything, leave the data folder as after a clean stop."""
        if self._watch is not None:
            self._watch.cancel()
        if self.config.is_broker and not self.failure.done():
            await self.lifecycle.stop()
        await self.controller.leave_quorum()  # who is not heard any more must not ask for votes
        await self._server.close()
        await self._housekeeper.stop()
        self.load_meter.stop()
        await self.scrubber.stop()
        await self.in_sync_sets.stop()
        await self.fetchers.close()
        await self.transactions.stop()
        await self.groups.stop()
        await self.partitions.close()
        await self.controller.stop()
        self.peers.close()
        self.writers.close()
