"""A broker's life in a cluster: it registers, says that it is there, and asks before it stops.

Registered, it is fenced until it knows the metadata up to its own registration. Whatever it led before has
other leaders or none by then. When the controller does not know this process any more it registers again. A
broker that was decommissioned is refused then: it has nothing left to do, and never asks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from typing import TYPE_CHECKING, Final

from penstock.metadata.brokers import Registration
from penstock.storage.errors import StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.broker_heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from penstock.broker.controller_channel import ControllerChannel
    from penstock.config import NodeConfig
    from penstock.controller.controller import Controller
    from penstock.storage import Storage
    from penstock.wire.broker_heartbeat import LoadData

log = logging.getLogger(__name__)

RETRY_S: Final = 0.2
REGISTER_AGAIN_S: Final = 0.05
"""A controller that was elected takes registrations a moment later, and nobody is served before."""
LEASE: Final = 0.75
"""Of a session, counted from when the last answered heartbeat was sent."""
FATAL: Final = {
    ErrorCode.inconsistent_cluster_id: "its data belong to another cluster than its controllers",
    ErrorCode.duplicate_broker_registration: "another broker runs under the same id",
}
GOODBYE_S_MAX: Final = 2.5


class DecommissionedError(StorageError):
    """The broker left the cluster for good."""


class Lifecycle:
    def __init__(
        self,
        config: NodeConfig,
        storage: Storage,
        controller: Controller,
        channel: ControllerChannel,
        *,
        is_clean: bool,
        on_failure: Callable[[Exception], None],
        offline: Callable[[], frozenset[UUID]] = frozenset,
        load: Callable[[], LoadData | None] = lambda: None,
    ) -> None:
        """`offline`: the replicas that are out of service here, see metadata/leadership.py. `load`: how busy
        this broker is."""
        self.broker_epoch = -1
        self.is_fenced = True
        self.is_decommissioned = False
        self._config = config
        self._storage = storage
        self._controller = controller
        self._channel = channel
        self._is_clean = is_clean
        self._is_damaged = False
        self._on_failure = on_failure
        self._offline = offline
        self._load = load
        self._incarnation = uuid.uuid4()
        self._address = ("", 0)
        self._task: asyncio.Task[None] | None = None
        self._unfenced = asyncio.Event()
        self._lease_until = 0.0
        self._wants_to_stop = asyncio.Event()
        self._has_news = asyncio.Event()
        self._may_stop = asyncio.Event()

    async def register(self, host: str, port: int) -> None:
        """Returns when the registration is in this node's own metadata."""
        self._address = (host, port)
        if self._config.is_alone:
            self.broker_epoch = await self._controller.register_alone(host, port)
        else:
            await self._register()
        self.is_fenced = not self._config.is_alone

    async def register_as_damaged(self) -> None:
        """Before heartbeats begin: what this broker holds turned out to be less than others count on."""
        self._is_clean, self._is_damaged = False, True
        self._incarnation = uuid.uuid4()
        await self._register()

    async def _register(self) -> None:
        registration = Registration(
            self._config.node_id,
            self._incarnation,
            self._storage.storage_id,
            *self._address,
            self._config.rack,
            is_clean=self._is_clean,
            is_damaged=self._is_damaged,
        )
        loop = asyncio.get_running_loop()
        give_up_at = 0.0
        while True:
            try:
                self.broker_epoch = await self._channel.register(registration, self._storage.cluster_id)
                break
            except ApiError as error:
                if error.code is ErrorCode.broker_id_not_registered:
                    self.is_decommissioned = True
                    raise DecommissionedError(
                        f"broker {self._config.node_id} was decommissioned;"
                        " to join the cluster again it needs a new data folder"
                    ) from error
                if error.code in FATAL:
                    # The one before may be dead and not be fenced yet: a new controller gives it a session.
                    give_up_at = give_up_at or loop.time() + 2 * self._config.cluster.broker_session_ms / 1000
                    if loop.time() >= give_up_at:
                        raise StorageError(f"this node cannot join: {FATAL[error.code]}") from error
                log.info("not registered yet: %s", error)
                await asyncio.sleep(RETRY_S if error.code in FATAL else REGISTER_AGAIN_S)
        await self._controller.until(self._is_known)
        log.info("registered with epoch %d", self.broker_epoch)

    def _is_known(self) -> bool:
        broker = self._controller.image.brokers.get(self._config.node_id)
        return broker is not None and broker.epoch >= self.broker_epoch

    def start(self) -> None:
        """Heartbeats, from now on; after `register` and when the metadata are carried out here."""
        if not self._config.is_alone:
            self._task = asyncio.get_running_loop().create_task(self._beat())

    @property
    def has_served(self) -> bool:
        """The controller has let this process in: it had all metadata then."""
        return self._config.is_alone or self._unfenced.is_set()

    async def until_unfenced(self) -> None:
        if not self._config.is_alone:
            await self._unfenced.wait()

    async def stop(self) -> None:
        """Ask the controller to move leadership away, then end; after some seconds without asking."""
        if self._task is None:
            return
        self._wants_to_stop.set()
        self.tell_soon()
        try:
            async with asyncio.timeout(GOODBYE_S_MAX):
                await self._may_stop.wait()
                if self._channel.is_local:
                    # Of a cluster that stops as a whole, the others ask us, and soon there is no majority.
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            log.warning("stopping without the controller's consent")
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self) -> None:
        try:
            await self._beat_on()
        except StorageError as error:  # it is not let in again
            self._on_failure(error)
            self._unfenced.set()  # whoever waits for it would wait for ever

    async def _beat_on(self) -> None:
        while True:
            try:
                await self._one_beat()
            except ApiError as error:
                if error.code is ErrorCode.stale_broker_epoch:
                    log.warning("the controller does not know this process any more; registering again")
                    await self._register()
                    continue
                log.info("heartbeat: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            except Exception:
                log.exception("heartbeat")
            interval_s = self._config.cluster.broker_heartbeat_ms / 1000
            await self._pause(RETRY_S / 4 if self.is_fenced else interval_s)

    def tell_soon(self) -> None:
        """What the heartbeats say has changed."""
        self._has_news.set()

    async def _pause(self, seconds: float) -> None:
        """Between two heartbeats: news are told at once. Whether it may stop is asked again soon."""
        if self._wants_to_stop.is_set():
            await asyncio.sleep(RETRY_S / 4)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_news.wait()
        self._has_news.clear()

    @property
    def has_lease(self) -> bool:
        """Whether the controller cannot have fenced us yet, as clocks go: our leadership is not doubtful."""
        return self._config.is_alone or asyncio.get_running_loop().time() < self._lease_until

    async def _one_beat(self) -> None:
        sent = asyncio.get_running_loop().time()
        reply = await self._channel.heartbeat(
            HeartbeatRequest(
                self._config.node_id,
                self.broker_epoch,
                self._controller.publisher.published_offset,
                self._wants_to_stop.is_set(),
                self._offline(),
                self._load(),
            )
        )
        if reply.is_fenced != self.is_fenced:
            log.info("%s by the controller", "fenced" if reply.is_fenced else "unfenced")
        self.is_fenced = reply.is_fenced
        if not reply.is_fenced:
            self._lease_until = sent + LEASE * self._config.cluster.broker_session_ms / 1000
            self._unfenced.set()
        if reply.should_shut_down:
            self._may_stop.set()
