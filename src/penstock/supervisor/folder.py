"""The data folder of a local cluster.

::

    cluster.json        which nodes there are, see layout.py
    supervisor.json     the supervisor's process, where it serves, and whether it means to stop
    .supervisor.lock    held (flock) by the supervisor; contains its pid
    supervisor.events   what the supervisor did, see journal.py
    supervisor.log      what a supervisor says that was started by a controller and has no terminal
    node-<id>/
      node.toml         what the node is told
      pid               the process that was last started for it
      paused            the process that was last paused on purpose, see signalling.py
      log               what it said on stdout and stderr; log.1 is the one before
      data/             its own data folder
    gateway/            the same for the gateway, without settings
    flights/            the same for the Flights service, if it was asked for

The folder of a node whose broker was decommissioned stays, and is nobody's business any more.
"""

from __future__ import annotations

import fcntl
import os
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from penstock.broker.node_status import is_alive, process_state, read_json, write_json
from penstock.supervisor.errors import SupervisorError
from penstock.supervisor.layout import ClusterLayout, layout_as_json, layout_from_json
from penstock.supervisor.services import GatewayOptions

CLUSTER: Final = "cluster.json"
SUPERVISOR: Final = "supervisor.json"
LOCK: Final = ".supervisor.lock"
LONE_NODE: Final = "meta.json"
"""What the data folder of one node has, see storage/folder.py."""

RUNNING: Final = "running"
STOPPING: Final = "stopping"


@dataclass(frozen=True, slots=True)
class SupervisorStatus:
    pid: int
    process_started: int
    state: str
    """`stopping` is written before the first node is stopped, and stays: then nobody is to undo it."""
    host: str
    http_port: int | None
    http: str | None
    gateway: GatewayOptions | None = None
    flights: bool = False
    """Whether it runs the Flights service."""

    @property
    def is_alive(self) -> bool:
        return is_alive(self.pid, self.process_started)


@dataclass(frozen=True, slots=True)
class NodeFolder:
    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def settings(self) -> Path:
        return self.path / "node.toml"

    @property
    def log(self) -> Path:
        return self.path / "log"

    def keeps_its_data(self) -> bool:
        """Whether what the node holds outlives its process."""
        return tomllib.loads(self.settings.read_text(encoding="utf-8")).get("storage") != "memory"

    def write_pid(self, pid: int) -> None:
        state = process_state(pid)
        if state is not None:
            write_json(self.path / "pid", {"pid": pid, "process_started": state.started})

    def read_pid(self) -> int | None:
        """Of the process that was last started here, if it lives."""
        told = read_json(self.path / "pid")
        if told is None:
            return None
        try:
            pid, started = int(told["pid"]), int(told["process_started"])
        except (KeyError, TypeError, ValueError):
            return None
        return pid if is_alive(pid, started) else None


class ClusterFolder:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._lock_fd: int | None = None

    def node(self, node_id: int) -> NodeFolder:
        return NodeFolder(self.path / f"node-{node_id}")

    def service(self, name: str) -> NodeFolder:
        return NodeFolder(self.path / name)

    @property
    def events(self) -> Path:
        return self.path / "supervisor.events"

    @property
    def log(self) -> Path:
        return self.path / "supervisor.log"

    def holds_cluster(self) -> bool:
        return (self.path / CLUSTER).exists()

    def acquire(self) -> None:
        """Create the folder and lock it; SupervisorError if it is somebody else's."""
        if (self.path / LONE_NODE).exists():
            raise SupervisorError(
                f"{self.path} holds the data of a single node; a cluster needs a folder of its own"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise SupervisorError(
                f"{self.path} is in use by the supervisor with pid {owner or 'unknown'}"
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock_fd = fd

    def release(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def read_layout(self) -> ClusterLayout | None:
        path = self.path / CLUSTER
        if not path.exists():
            return None
        value = read_json(path)
        if value is None:
            raise SupervisorError(f"{path} is damaged: it is no JSON object")
        try:
            return layout_from_json(value)
        except ValueError as error:
            raise SupervisorError(f"{path} is damaged: {error}") from error

    def write_layout(self, layout: ClusterLayout) -> None:
        write_json(self.path / CLUSTER, layout_as_json(layout))

    def read_supervisor(self) -> SupervisorStatus | None:
        told = read_json(self.path / SUPERVISOR)
        if told is None:
            return None
        try:
            port, http, gateway = told["http_port"], told["http"], told["gateway"]
            return SupervisorStatus(
                int(told["pid"]),
                int(told["process_started"]),
                str(told["state"]),
                str(told["host"]),
                None if port is None else int(port),
                None if http is None else str(http),
                None if gateway is None else GatewayOptions.from_json(gateway),
                bool(told.get("flights")),
            )
        except (KeyError, TypeError, ValueError):
            return None

    def write_supervisor(
        self,
        state: str,
        *,
        host: str,
        http_port: int | None,
        http: str | None,
        gateway: GatewayOptions | None,
        flights: bool = False,
    ) -> None:
        """Say that this process is the supervisor."""
        own = process_state(os.getpid())
        assert own is not None, "this process lives"
        status = SupervisorStatus(os.getpid(), own.started, state, host, http_port, http, gateway, flights)
        write_json(self.path / SUPERVISOR, asdict(status))
