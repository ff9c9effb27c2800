"""The supervisor of a local cluster: a loop that looks, starts what is due, and waits for what happens.

What it decides is in `restarts.py` and `layout.py`; what it touches is in `processes.py`, `folder.py` and
`journal.py`. It keeps nothing that its successor would need and could not find in the folder: killed at any
moment, it leaves nodes that go on, and a new supervisor adopts them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.supervisor.endpoint import Endpoint, bind
from penstock.supervisor.errors import SupervisorError
from penstock.supervisor.folder import RUNNING, STOPPING
from penstock.supervisor.journal import Journal
from penstock.supervisor.layout import format_address
from penstock.supervisor.polling import Poller
from penstock.supervisor.processes import Ending, NodeProcess
from penstock.supervisor.restarts import Phase, Restarts
from penstock.supervisor.view import PAUSED, Cursor, Seen, cluster_status, merged_log

if TYPE_CHECKING:
    from penstock.supervisor.folder import ClusterFolder
    from penstock.supervisor.layout import ClusterLayout, NodeSpec

OnReady = Callable[[str, str | None], None]
"""Called once with the brokers' addresses and the HTTP address when all nodes serve."""

TICK_S: Final = 0.1
"""Between two looks at processes that are not our children, and at nodes that start."""
BIND_AGAIN_S: Final = 1.0
STOP_S_MAX: Final = 20.0
"""For a group of nodes to stop by itself."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NAME: Final = "supervisor"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAddress:
    host: str
    port: int | None
    """None: no endpoint; 0: any free port."""


class Supervisor:
    """Runs once, inside an event loop; the folder is locked by this process."""

    def __init__(
        self,
        folder: ClusterFolder,
        layout: ClusterLayout,
        http: HttpAddress,
        command: Sequence[str],
        *,
        is_successor: bool = False,
    ) -> None:
        """`is_successor`: it takes over from one that died, and has nobody to complain to."""
        self._folder = folder
        self._layout = layout
        self._http = http
        self._url: str | None = None
        self._is_successor = is_successor
        self._loop = asyncio.get_running_loop()
        self._nodes = {node.id: NodeProcess(node, folder.node(node.id), command) for node in layout.nodes}
        self._restarts = Restarts(self._nodes, self._loop.time())
        self._journal = Journal(folder.events)
        self._poller = Poller(layout.cluster_id, self._endpoints)
        self._endpoint = Endpoint(self._status, self._log, self._not_running)
        self._bind_at = 0.0
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()

    async def run(self, on_ready: OnReady) -> None:
        """Until SIGINT, SIGTERM or the end of its terminal.

        SupervisorError and OSError say why the cluster cannot start.
        """
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it for the last one
                self._loop.add_signal_handler(number, self._asked_to_stop)
        self._loop.add_signal_handler(signal.SIGCHLD, self._wake.set)
        if not self._is_successor:
            await self._listen()
        self._write_status(RUNNING)
        self._tell("supervisor_started", f"the supervisor started as process {os.getpid()}")
        polling = asyncio.create_task(self._poller.run())
        try:
            await self._watch(on_ready, polling)
        except SupervisorError:
            await self._stop_nodes()
            raise
        else:
            await self._stop_nodes()
        finally:  # after any other failure the nodes go on, for a successor to adopt
            polling.cancel()
            await self._endpoint.close()

    def _asked_to_stop(self) -> None:
        self._stop.set()
        self._wake.set()

    # Watching

    async def _watch(self, on_ready: OnReady, polling: asyncio.Task[None]) -> None:
        was_ready = False
        while not self._stop.is_set():
            self._wake.clear()
            if polling.done():
                polling.result()  # a fault in it is one of the supervisor, and ends it
            for node in self._nodes.values():
                self._look_at(node, may_refuse=not was_ready and not self._is_successor)
            self._start_due()
            if self._http.port is not None and self._url is None and self._loop.time() >= self._bind_at:
                await self._listen_again()
            if not was_ready and not self._restarts.not_running():
                was_ready = True
                await self._poller.refresh()  # whoever waits for that line may ask at once
                on_ready(self._layout.kafka, self._url)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK_S)

    def _look_at(self, node: NodeProcess, *, may_refuse: bool) -> None:
        now = self._loop.time()
        ending = node.ending()
        if ending is not None:
            if may_refuse and ending.refused:
                raise SupervisorError(f"node {node.spec.id} did not start: {ending.cause}")
            self._ended(node.spec, ending, self._restarts.ended(node.spec.id, now))
        elif self._restarts.phase(node.spec.id) is Phase.STARTING and node.is_ready():
            self._restarts.ready(node.spec.id, now)
            self._tell("node_ready", f"node {node.spec.id} serves", nodes=(node.spec.id,))

    def _ended(self, node: NodeSpec, ending: Ending, delay: float) -> None:
        log.warning("node %s ended (%s); it is started again in %.1f s", node.id, ending.cause, delay)
        self._tell("node_ended", f"node {node.id} ended", cause=ending.cause, nodes=(node.id,))

    def _start_due(self) -> None:
        for node_id in self._restarts.due(self._loop.time()):
            node = self._nodes[node_id]
            self._restarts.started(node_id, self._loop.time())
            if node.adopt():
                text = f"node {node_id} runs already as process {node.pid}"
                self._tell("node_adopted", text, nodes=(node_id,))
                continue
            try:
                node.start()
            except OSError as error:
                ending = Ending(None, f"it could not be started: {error}")
                self._ended(node.spec, ending, self._restarts.ended(node_id, self._loop.time()))
            else:
                text = f"node {node_id} started as process {node.pid}"
                self._tell("node_started", text, nodes=(node_id,))

    # Telling

    def _tell(self, kind: str, text: str, *, cause: str | None = None, nodes: tuple[int, ...] = ()) -> None:
        try:
            self._journal.add(time.time_ns() // 1_000_000, kind, text, cause=cause, nodes=nodes)
        except OSError as error:  # a full disk is no reason to leave the nodes alone
            log.warning("the cluster log cannot be written: %s", error)

    def _endpoints(self) -> dict[int, str]:
        return {node_id: node.http for node_id, node in self._nodes.items() if node.http is not None}

    def _status(self) -> dict[str, Any]:
        self._poller.watched()
        processes = {node_id: self._seen(node) for node_id, node in self._nodes.items()}
        return cluster_status(
            self._layout, processes, self._poller.answers, {NAME: Seen(os.getpid(), RUNNING)}
        )

    def _seen(self, node: NodeProcess) -> Seen:
        state = node.state()
        if state is not None and state.paused:
            return Seen(node.pid, PAUSED)
        phase = self._restarts.phase(node.spec.id)
        return Seen(node.pid, phase if state is not None else Phase.DOWN)

    def _log(self, after: Cursor) -> dict[str, Any]:
        self._poller.watched()
        return merged_log(self._poller.events, self._journal.events, after)

    def _not_running(self) -> dict[int, str]:
        return dict(self._restarts.not_running())

    async def _listen(self) -> None:
        if self._http.port is None:
            return
        listening = bind(self._http.host, self._http.port)
        port = listening.getsockname()[1]
        await self._endpoint.listen(listening)
        self._url = f"http://{format_address(self._http.host, port)}"
        self._http = HttpAddress(host=self._http.host, port=port)

    async def _listen_again(self) -> None:
        """Of a successor: its port may be taken for a while, and the nodes need it all the same."""
        try:
            await self._listen()
        except OSError as error:
            log.warning("%s", error.strerror)
            self._bind_at = self._loop.time() + BIND_AGAIN_S
        else:
            self._write_status(RUNNING)

    def _write_status(self, state: str) -> None:
        self._folder.write_supervisor(state, host=self._http.host, http_port=self._http.port, http=self._url)

    # Stopping

    async def _stop_nodes(self) -> None:
        try:
            self._write_status(STOPPING)  # before the first node: a controller must not call a successor
        except OSError as error:
            log.warning("that the cluster stops cannot be written: %s", error)
        self._tell("cluster_stopping", "the supervisor stops all nodes")
        for group in self._layout.stop_order:
            await self._stop_group([self._nodes[spec.id] for spec in group])

    async def _stop_group(self, nodes: Iterable[NodeProcess]) -> None:
        left = [node for node in nodes if node.pid is not None]
        for node in left:
            node.signal(signal.SIGTERM)
            node.signal(signal.SIGCONT)  # one that is paused would not hear it
        deadline = self._loop.time() + STOP_S_MAX
        while left := [node for node in left if node.ending() is None]:
            if self._loop.time() >= deadline:
                deadline = float("inf")
                for node in left:
                    log.warning("node %s did not stop within %.0f s and is killed", node.spec.id, STOP_S_MAX)
                    node.signal(signal.SIGKILL)
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK_S)
