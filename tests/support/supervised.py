"""A real `penstock up --brokers N` with all its processes.

    with SupervisedCluster(tmp_path, brokers=3) as cluster:
        Producer({"bootstrap.servers": cluster.bootstrap})

The supervisor is the child that BrokerProcess knows; nodes, and a supervisor that a controller called, are
found in the data folder. At the end of the block none of them is left, however the test ended.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.broker import node_status
from penstock.broker.node_status import is_alive, process_state, write_json
from penstock.supervisor.folder import STOPPING, ClusterFolder
from penstock.supervisor.services import FLIGHTS, GATEWAY
from tests.support.broker import BrokerProcess
from tests.support.managed_process import ROOT, environment_with
from tests.support.ports import free_ports
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from types import TracebackType

READY_SECONDS_MAX = 60.0
SPARE_PORTS = 3
"""After those of the brokers, for brokers that a test adds."""


class SupervisedCluster(BrokerProcess):
    def __init__(
        self,
        folder: Path,
        *options: str,
        brokers: int = 3,
        controllers: int | None = None,
        module: str = "penstock",
        with_gateway: bool = False,
        modules: Path | None = None,
    ) -> None:
        """`module`: tests.support.fake_penstock_up runs nodes that only look like nodes. `modules`: a folder
        in which all processes look for modules first."""
        counts = ["--brokers", str(brokers)]
        counts += [] if controllers is None else ["--controllers", str(controllers)]
        super().__init__(
            folder,
            *counts,
            *options,
            port=free_ports(brokers + SPARE_PORTS),
            environment=environment_with(*filter(None, (modules, ROOT))),
            with_gateway=with_gateway,
            ready_s_max=READY_SECONDS_MAX,
        )
        self.bootstrap = ",".join(f"127.0.0.1:{self.port + index}" for index in range(brokers))
        self.folder = ClusterFolder(self.data)
        self._module = module
        self._settings = folder / f"settings-{self.port}.toml"
        # Most tests say themselves who leads and where replicas lie, and count who is elected.
        self._settings.write_text('balancer = "off"\n')

    def command(self) -> list[str]:
        command = super().command()
        command[command.index("penstock")] = self._module
        return [*command, "--config", str(self._settings)]

    @property
    def node_ids(self) -> list[int]:
        layout = self.folder.read_layout()
        return [node.id for node in layout.nodes] if layout is not None else []

    def node_pid(self, node_id: int) -> int | None:
        """Of a node that serves."""
        status = node_status.read(self.folder.node(node_id).data)
        return status.pid if status is not None else None

    def node_pids(self) -> dict[int, int | None]:
        return {node_id: self.node_pid(node_id) for node_id in self.node_ids}

    def supervisor_pid(self) -> int | None:
        status = self.folder.read_supervisor()
        return status.pid if status is not None and status.is_alive else None

    def ask(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.http}{path}", timeout=10) as response:
            answer: dict[str, Any] = json.loads(response.read())
            return answer

    def status(self) -> dict[str, Any]:
        return self.ask("/v1/cluster")

    def told_pid(self, name: str) -> int:
        """Of the gateway, the supervisor or the Flights service, as the gateway tells it."""
        return int(next(node["pid"] for node in self.status()["nodes"] if node["id"] == name))

    def missing(self) -> str:
        """Why the cluster is not ready; nothing if it is."""
        try:
            self.ask("/readyz")
        except urllib.error.HTTPError as error:
            with error:
                return str(json.loads(error.read())["message"])
        return ""

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.ask("/v1/cluster/log")["events"] if event["kind"] == kind]

    def wait_for_new_pid(self, node_id: int, old: int | None, *, timeout_s: float = 30.0) -> int:
        """The node serves again as another process."""

        def new_pid() -> int | None:
            pid = self.node_pid(node_id)
            return pid if pid != old else None

        return int(wait_until(new_pid, f"another process for node {node_id}", timeout_s=timeout_s) or 0)

    def kill_everything(self) -> None:
        """Supervisor and nodes, whoever's children they are. From here on nobody calls a new supervisor."""
        status = self.folder.read_supervisor()
        if status is not None:
            told = json.loads((self.data / "supervisor.json").read_text())
            write_json(self.data / "supervisor.json", told | {"state": STOPPING})
            end(status.pid, status.process_started)
        services = map(self.folder.service, (GATEWAY, FLIGHTS))
        for folder in [*map(self.folder.node, self.node_ids), *services]:
            serving = node_status.read(folder.data)
            pid = serving.pid if serving is not None else folder.read_pid()
            state = process_state(pid) if pid is not None else None
            if pid is not None and state is not None:
                end(pid, state.started)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                for node_id in self.node_ids:
                    log = self.folder.node(node_id).log
                    if log.exists():
                        error.add_note(f"end of the output of node {node_id}:\n{log.read_text()[-2_000:]}")
            super().__exit__(kind, error, trace)
        finally:
            self.kill_everything()


def end(pid: int, process_started: int) -> None:
    if is_alive(pid, process_started):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid, process_started), f"the end of process {pid}")
