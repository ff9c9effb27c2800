"""Ending a local cluster whose supervisor may be anybody's child.

A supervisor that was killed gets a successor from a controller, which knows nothing of the demo. The folder
tells who it is, and which nodes there are.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from penstock.broker import node_status
from penstock.broker.node_status import is_alive, process_state, read_json, write_json
from penstock.supervisor.errors import SupervisorError
from penstock.supervisor.folder import STOPPING, SUPERVISOR, ClusterFolder
from penstock.supervisor.revive import AGAIN_S, CALLED
from penstock.supervisor.services import GATEWAY

LOOK_S: Final = 0.1


class Process(NamedTuple):
    pid: int
    started: int

    @property
    def lives(self) -> bool:
        return is_alive(self.pid, self.started)

    def signal(self, number: int) -> None:
        if self.lives:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def process_of(pid: int) -> Process | None:
    state = process_state(pid)
    return None if state is None else Process(pid, state.started)


def supervisor_of(folder: ClusterFolder) -> Process | None:
    """The one that lives."""
    status = folder.read_supervisor()
    return Process(status.pid, status.process_started) if status is not None and status.is_alive else None


def nodes_of(folder: ClusterFolder) -> list[Process]:
    """Those that live, and the gateway."""
    try:
        layout = folder.read_layout()
    except SupervisorError:  # it was being written when the machine ended
        return []
    if layout is None:
        return []
    places = [*(folder.node(node.id) for node in layout.nodes), folder.service(GATEWAY)]
    found = []
    for place in places:
        status = node_status.read(place.data)
        pid = status.pid if status is not None else place.read_pid()
        process = process_of(pid) if pid is not None else None
        if process is not None:
            found.append(process)
    return found


def end_cluster(
    folder: ClusterFolder, patience_s: float, meanwhile: Callable[[], bool] = lambda: True
) -> None:
    """Until none of its processes is left: by SIGTERM, and by SIGKILL when they had their time.

    `meanwhile` is called as long as it takes; when it answers no, nobody is patient any more.
    """
    told: set[Process] = set()
    deadline = time.monotonic() + patience_s
    while True:
        supervisor, nodes = supervisor_of(folder), nodes_of(folder)
        if supervisor is None and not nodes and not is_called(folder):
            return
        if not meanwhile() or time.monotonic() >= deadline:
            mark_stopping(folder)
            for process in [*([supervisor] if supervisor else []), *nodes]:
                process.signal(signal.SIGKILL)
        elif supervisor is not None:
            tell(told, supervisor)
        else:
            mark_stopping(folder)
            for node in nodes:
                tell(told, node)
        time.sleep(LOOK_S)


def is_called(folder: ClusterFolder) -> bool:
    """Whether a controller has called a supervisor just now, which is still to appear."""
    try:
        age_s = time.time() - (folder.path / CALLED).stat().st_mtime
    except FileNotFoundError:
        return False
    return 0 <= age_s < AGAIN_S


def tell(told: set[Process], process: Process) -> None:
    if process not in told:
        told.add(process)
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)


def mark_stopping(folder: ClusterFolder) -> None:
    """So that no controller calls another supervisor."""
    path = folder.path / SUPERVISOR
    status = read_json(path)
    if status is not None and status.get("state") != STOPPING:
        write_json(path, status | {"state": STOPPING})
