"""A node or a service as a process: a child of this supervisor, or one that an earlier supervisor started.

They outlive their supervisor. So they have a session of their own, and write to a file and not to a pipe that
would end with it; whether one serves is seen from its `node.json`, or from the line `ready` in its log.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import signalling
from penstock.broker import node_status
from penstock.broker.node_status import ProcessState, process_state
from penstock.supervisor.output_logs import OutputLogs, keep_short

if TYPE_CHECKING:
    from penstock.supervisor.folder import NodeFolder
    from penstock.supervisor.layout import Name

TAIL_BYTES: Final = 4_096
READY: Final = b"ready"
COMPLAINT: Final = "penstock: "
"""How the last line of a command begins that says why it failed."""

log = logging.getLogger(__name__)


class Ending(NamedTuple):
    code: int | None
    """None of a process that was not our child."""
    cause: str

    @property
    def refused(self) -> bool:
        """It gave up by itself, with a reason, and was not ended from outside."""
        return self.code is not None and self.code > 0


def label_of(name: Name) -> str:
    if isinstance(name, int):
        return f"node {name}"
    return "the Flights service" if name == "flights" else f"the {name}"


class SupervisedProcess:
    def __init__(
        self, name: Name, folder: NodeFolder, command: Sequence[str], *, prints_ready: bool = False
    ) -> None:
        """`prints_ready`: it does not write a `node.json`, and says on stdout that it serves."""
        self.name = name
        self.label = label_of(name)
        self.pid: int | None = None
        self.http: str | None = None
        """Its admin endpoint, once it serves."""
        self.start_s: Mapping[str, float] = {}
        """How long each phase of its start took, once it serves."""
        self._folder = folder
        self._command = command
        self._child: subprocess.Popen[bytes] | None = None
        self._process_started = 0
        self._log_start = 0
        self._prints_ready = prints_ready

    def adopt(self) -> bool:
        """Take over a process that runs for this node already, whoever started it."""
        status = node_status.read(self._folder.data)
        pid = status.pid if status is not None else self._folder.read_pid()
        state = process_state(pid) if pid is not None else None
        if state is None:
            return False
        self.pid, self._process_started, self._child = pid, state.started, None
        return True

    def start(self) -> None:
        """OSError if there can be no process."""
        self._folder.path.mkdir(parents=True, exist_ok=True)
        path = self._folder.log
        keep_short(path)
        with path.open("ab") as output:
            self._log_start = output.tell()
            self._child = subprocess.Popen(  # noqa: S603 - this interpreter and this package
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C on the terminal is for the supervisor, which then stops the nodes in their order.
                start_new_session=True,
            )
        self.pid = self._child.pid
        try:
            self._folder.write_pid(self._child.pid)
        except OSError as error:  # it runs, and once it serves it is found without that file
            log.warning("the pid of %s cannot be written: %s", self.label, error)

    def keep_log_short(self, logs: OutputLogs) -> None:
        if logs.keep_short(self._folder.log):
            self._log_start = 0

    def state(self) -> ProcessState | None:
        return process_state(self.pid) if self.pid is not None else None

    def is_paused_on_purpose(self) -> bool:
        return self.pid is not None and signalling.is_paused_on_purpose(self._folder.settings, self.pid)

    def is_ready(self) -> bool:
        if self._prints_ready:
            return self._has_printed_ready()
        status = node_status.read(self._folder.data)
        if status is None or status.pid != self.pid:
            return False
        self.http = status.http
        self.start_s = status.start_s
        return True

    def is_decommissioned(self) -> bool:
        """Whether the cluster has let its broker go for good."""
        return node_status.is_decommissioned(self._folder.data)

    def ending(self) -> Ending | None:
        """How the process ended; None while it runs. After an answer there is no process any more."""
        if self.pid is None:
            return None
        if self._child is not None:
            code = self._child.poll()
            if code is None:
                return None
            ending = Ending(code, self._describe(code))
        elif node_status.is_alive(self.pid, self._process_started):
            return None
        else:
            ending = Ending(None, "the process is gone")
        self.pid, self.http, self._child = None, None, None
        return ending

    def signal(self, number: int) -> None:
        """To a process that may just have ended."""
        if self._child is not None:
            self._child.send_signal(number)
        elif self.pid is not None and node_status.is_alive(self.pid, self._process_started):
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _has_printed_ready(self) -> bool:
        if self._child is None:
            return True  # where its part of the log begins was known to who started it
        with self._folder.log.open("rb") as output:
            output.seek(self._log_start)
            return any(line.startswith(READY) for line in output)

    def _describe(self, code: int) -> str:
        if code < 0:
            known = -code in set(signal.Signals)
            return f"killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
        complaint = self._complaint()
        return f"exit code {code}" + (f": {complaint}" if complaint else "")

    def _complaint(self) -> str:
        """The line with which the process said why it failed."""
        with self._folder.log.open("rb") as output:
            end = output.seek(0, os.SEEK_END)
            output.seek(max(self._log_start, end - TAIL_BYTES))
            lines = output.read().decode(errors="replace").splitlines()
        return next(
            (line.removeprefix(COMPLAINT) for line in reversed(lines) if line.startswith(COMPLAINT)), ""
        )
