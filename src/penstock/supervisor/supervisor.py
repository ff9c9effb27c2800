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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.listening import bind, format_address
from penstock.supervisor.endpoint import Endpoint
from penstock.supervisor.errors import SupervisorError
from penstock.supervisor.folder import RUNNING, STOPPING
from penstock.supervisor.journal import Journal
from penstock.supervisor.output_logs import OutputLogs
from penstock.supervisor.polling import Poller
from penstock.supervisor.processes import Ending, SupervisedProcess
from penstock.supervisor.restarts import Phase, Restarts
from penstock.supervisor.services import (
    FLIGHTS,
    FLIGHTS_BACK_OFF,
    GATEWAY,
    NOT_WAITED_FOR,
    GatewayOptions,
    flights_command,
    gateway_command,
)
from penstock.supervisor.view import PAUSED, Cursor, Seen, cluster_status, is_fenced, merged_log
from penstock.supervisor.watchdog import Watchdog

if TYPE_CHECKING:
    from penstock.broker.node_status import ProcessState
    from penstock.supervisor.folder import ClusterFolder
    from penstock.supervisor.layout import ClusterLayout, Name

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
        gateway: GatewayOptions | None = None,
        flights: bool = False,
        is_successor: bool = False,
    ) -> None:
        """`command` runs a node, given the path of its file. `is_successor`: it takes over from one that
        died, and has nobody to complain to."""
        self._folder = folder
        self._layout = layout
        self._http = http
        self._url: str | None = None
        self._is_successor = is_successor
        self._loop = asyncio.get_running_loop()
        self._gateway = gateway
        self._flights = flights
        self._processes: dict[Name, SupervisedProcess] = {
            node.id: SupervisedProcess(
                node.id, folder.node(node.id), [*command, str(folder.node(node.id).settings)]
            )
            for node in layout.nodes
        }
        self._restarts = Restarts(self._processes, self._loop.time())
        self._journal = Journal(folder.events)
        self._poller = Poller(layout.cluster_id, self._endpoints)
        self._endpoint = Endpoint(self._status, self._log, self._not_running)
        self._paused: set[Name] = set()
        """Somebody has stopped them with SIGSTOP: they answer nothing, and are not asked."""
        self._watchdog = Watchdog()
        # What is kept in memory would end with the process.
        self._may_be_ended = {node.id for node in layout.nodes if folder.node(node.id).keeps_its_data()}
        self._output_logs = OutputLogs()
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
        self._add_gateway()
        self._add_flights()
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

    def _add_gateway(self) -> None:
        """Once it is known where this supervisor listens, or will."""
        if self._gateway is None:
            return
        assert self._http.port, "who asks the gateway has to be answered"
        admin_url = f"http://{format_address(self._http.host, self._http.port)}"
        command = gateway_command(self._gateway, self._folder, self._layout, admin_url)
        self._processes[GATEWAY] = SupervisedProcess(GATEWAY, self._folder.service(GATEWAY), command)
        self._restarts.add(GATEWAY, self._loop.time())

    def _add_flights(self) -> None:
        if not self._flights:
            return
        command = flights_command(self._folder, self._layout)
        folder = self._folder.service(FLIGHTS)
        self._processes[FLIGHTS] = SupervisedProcess(FLIGHTS, folder, command, prints_ready=True)
        self._restarts.add(FLIGHTS, self._loop.time(), FLIGHTS_BACK_OFF)

    # Watching

    async def _watch(self, on_ready: OnReady, polling: asyncio.Task[None]) -> None:
        was_ready = False
        while not self._stop.is_set():
            self._wake.clear()
            if polling.done():
                polling.result()  # a fault in it is one of the supervisor, and ends it
            for process in list(self._processes.values()):
                self._look_at(process, may_refuse=not was_ready and not self._is_successor)
            self._start_due()
            self._output_logs.keep_short(self._folder.log)
            if self._http.port is not None and self._url is None and self._loop.time() >= self._bind_at:
                await self._listen_again()
            if not was_ready and not self._not_running():
                was_ready = True
                await self._poller.refresh()  # whoever waits for that line may ask at once
                on_ready(self._layout.kafka, self._gateway.url if self._gateway else self._url)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK_S)

    def _look_at(self, process: SupervisedProcess, *, may_refuse: bool) -> None:
        now = self._loop.time()
        name = process.name
        ending = process.ending()
        if isinstance(name, int) and process.is_decommissioned() and self._left(name, process):
            return
        if ending is not None:
            if may_refuse and ending.refused and name not in NOT_WAITED_FOR:
                raise SupervisorError(f"{process.label} did not start: {ending.cause}")
            self._ended(process, ending, self._restarts.ended(name, now))
        elif self._restarts.phase(name) is Phase.STARTING and process.is_ready():
            self._restarts.ready(name, now)
            self._tell_of(process, "ready", *readiness(process.start_s))
        elif self._restarts.phase(name) is Phase.RUNNING:  # before, its log is searched for that
            process.keep_log_short(self._output_logs)
        state = process.state()
        self._look_whether_paused(process, state)
        self._look_whether_hung(process, state)

    def _look_whether_paused(self, process: SupervisedProcess, state: ProcessState | None) -> None:
        is_paused = state is not None and state.paused
        if is_paused and process.name not in self._paused:
            self._paused.add(process.name)
            self._tell_of(process, "paused", "is paused")
        elif not is_paused and process.name in self._paused:
            self._paused.discard(process.name)
            if state is not None:
                self._tell_of(process, "resumed", "goes on")

    def _look_whether_hung(self, process: SupervisedProcess, state: ProcessState | None) -> None:
        """Ends a node that hangs, so that its clients look for another leader; see watchdog.py."""
        name = process.name
        if state is None or name not in self._may_be_ended or self._restarts.phase(name) is not Phase.RUNNING:
            return
        cause = self._watchdog.look(
            name,
            self._loop.time(),
            is_stopped=state.paused and not process.is_paused_on_purpose(),
            is_silent=name in self._poller.silent and is_fenced(self._poller.answers, name),
        )
        if cause is not None:
            log.warning("%s hangs and is ended: %s", process.label, cause)
            self._tell_of(process, "hung", "hangs and is ended", cause=cause)
            process.signal(signal.SIGKILL)

    def _left(self, node_id: int, process: SupervisedProcess) -> bool:
        """Its broker is out of the cluster: whether the node is, too. With both roles it goes on."""
        spec = self._layout.node(node_id)
        if not spec.is_broker or (process.pid is not None and not spec.is_controller):
            return False  # it is no broker any more, or about to end
        layout = self._layout.without_broker(spec.id)
        try:
            self._folder.write_layout(layout)
        except OSError as error:  # tried again at the next look; started meanwhile, the node refuses itself
            log.warning("that broker %s was decommissioned cannot be written: %s", spec.id, error)
            return False
        self._layout = layout
        text = f"broker {spec.id} was decommissioned"
        if spec.is_controller:
            self._tell("node_retired", f"{text}; node {spec.id} is a controller only", nodes=(spec.id,))
            return False
        del self._processes[spec.id]
        self._restarts.forget(spec.id)
        self._tell("node_retired", f"{text} and is not started any more", nodes=(spec.id,))
        return True

    def _ended(self, process: SupervisedProcess, ending: Ending, delay: float) -> None:
        log.warning("%s ended (%s); it is started again in %.1f s", process.label, ending.cause, delay)
        self._tell_of(process, "ended", "ended", cause=ending.cause)

    def _start_due(self) -> None:
        for name in self._restarts.due(self._loop.time()):
            process = self._processes[name]
            self._restarts.started(name, self._loop.time())
            if process.adopt():
                self._tell_of(process, "adopted", f"runs already as process {process.pid}")
                continue
            try:
                process.start()
            except OSError as error:
                ending = Ending(None, f"it could not be started: {error}")
                self._ended(process, ending, self._restarts.ended(name, self._loop.time()))
            else:
                self._tell_of(process, "started", f"started as process {process.pid}")

    # Telling

    def _tell_of(self, process: SupervisedProcess, kind: str, what: str, cause: str | None = None) -> None:
        is_node = isinstance(process.name, int)
        nodes = (process.name,) if isinstance(process.name, int) else ()
        kind = f"node_{kind}" if is_node else f"{process.name}_{kind}"
        self._tell(kind, f"{process.label} {what}", cause=cause, nodes=nodes)

    def _tell(self, kind: str, text: str, *, cause: str | None = None, nodes: tuple[int, ...] = ()) -> None:
        try:
            self._journal.add(time.time_ns() // 1_000_000, kind, text, cause=cause, nodes=nodes)
        except OSError as error:  # a full disk is no reason to leave the nodes alone
            log.warning("the cluster log cannot be written: %s", error)

    def _endpoints(self) -> dict[int, str]:
        return {
            name: process.http
            for name, process in self._processes.items()
            if isinstance(name, int) and process.http is not None and name not in self._paused
        }

    def _status(self) -> dict[str, Any]:
        self._poller.watched()
        seen = {name: self._seen(process) for name, process in self._processes.items()}
        nodes = {name: each for name, each in seen.items() if isinstance(name, int)}
        services = {name: each for name, each in seen.items() if isinstance(name, str)}
        services[NAME] = Seen(os.getpid(), RUNNING)
        return cluster_status(self._layout, nodes, self._poller.answers, services)

    def _seen(self, process: SupervisedProcess) -> Seen:
        state = process.state()
        if state is not None and state.paused:
            return Seen(process.pid, PAUSED)
        phase = self._restarts.phase(process.name)
        return Seen(process.pid, phase if state is not None else Phase.DOWN)

    def _log(self, after: Cursor) -> dict[str, Any]:
        self._poller.watched()
        return merged_log(self._poller.events, self._journal.events, after)

    def _not_running(self) -> dict[str, str]:
        return {
            self._processes[name].label: phase
            for name, phase in self._restarts.not_running().items()
            if name not in NOT_WAITED_FOR
        }

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
        self._folder.write_supervisor(
            state,
            host=self._http.host,
            http_port=self._http.port,
            http=self._url,
            gateway=self._gateway,
            flights=self._flights,
        )

    # Stopping

    async def _stop_nodes(self) -> None:
        try:
            self._write_status(STOPPING)  # before the first node: a controller must not call a successor
        except OSError as error:
            log.warning("that the cluster stops cannot be written: %s", error)
        self._tell("cluster_stopping", "the supervisor stops all nodes")
        groups: list[list[Name]] = [[name for name in self._processes if isinstance(name, str)]]
        groups += [[spec.id for spec in group] for group in self._layout.stop_order]
        for group in groups:
            await self._stop_group([self._processes[name] for name in group])

    async def _stop_group(self, processes: Iterable[SupervisedProcess]) -> None:
        left = [process for process in processes if process.pid is not None]
        for process in left:
            process.signal(signal.SIGTERM)
            process.signal(signal.SIGCONT)  # one that is paused would not hear it
        deadline = self._loop.time() + STOP_S_MAX
        while left := [process for process in left if process.ending() is None]:
            if self._loop.time() >= deadline:
                deadline = float("inf")
                for process in left:
                    log.warning("%s did not stop within %.0f s and is killed", process.label, STOP_S_MAX)
                    process.signal(signal.SIGKILL)
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK_S)


def readiness(start_s: Mapping[str, float]) -> tuple[str, str | None]:
    """That a process serves, and after what, as far as it has told."""
    if not start_s:
        return "serves", None
    phases = ", ".join(f"{took:.2f} s {phase}" for phase, took in start_s.items())
    return f"serves, {sum(start_s.values()):.2f} s after its start", phases
