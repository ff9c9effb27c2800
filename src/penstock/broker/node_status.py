"""Which process serves a data folder, for whoever looks from outside: `node.json`.

::

    {"pid": 4242, "process_started": 1234, "id": 1, "kafka": "127.0.0.1:9092",
     "http": "http://127.0.0.1:40001", "started_at_ms": 1700000000000,
     "start_s": {"to load": 0.51, "until registered": 0.22, …}}

A node writes it when it serves and removes it at a clean stop. After a crash it stays, and its pid may by
then be somebody else's. A process is therefore known by its pid and the moment it began, which Linux counts
in clock ticks since the boot of the machine.

`decommissioned` is there once the cluster has let the node's broker go for good.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = "node.json"
DECOMMISSIONED: Final = "decommissioned"
PROC: Final = Path("/proc")
ENDED: Final = "ZX"
"""States of a process that runs no more: it only waits for its parent to ask how it ended."""
STOPPED: Final = "T"


class ProcessState(NamedTuple):
    started: int
    """0 where the system does not tell."""
    paused: bool = False


@dataclass(frozen=True, slots=True)
class NodeStatus:
    pid: int
    process_started: int
    id: int
    kafka: str
    http: str | None
    started_at_ms: int
    start_s: Mapping[str, float] = field(default_factory=dict)
    """What its start was made of, phase by phase."""


def write(
    folder: str | os.PathLike[str],
    *,
    node_id: int,
    kafka: str,
    http: str | None,
    started_at_ms: int,
    start_s: Mapping[str, float] | None = None,
) -> None:
    """Say that this process serves the folder."""
    own = process_state(os.getpid())
    assert own is not None, "this process lives"
    told = {
        "pid": os.getpid(),
        "process_started": own.started,
        "id": node_id,
        "kafka": kafka,
        "http": http,
        "started_at_ms": started_at_ms,
        "start_s": {phase: round(seconds, 3) for phase, seconds in (start_s or {}).items()},
    }
    write_json(Path(folder) / FILE, told)


def remove(folder: str | os.PathLike[str]) -> None:
    (Path(folder) / FILE).unlink(missing_ok=True)


def read(folder: str | os.PathLike[str]) -> NodeStatus | None:
    """The living process that serves the folder, if there is one."""
    told = read_json(Path(folder) / FILE)
    if told is None:
        return None
    try:
        http = told["http"]
        status = NodeStatus(
            pid=int(told["pid"]),
            process_started=int(told["process_started"]),
            id=int(told["id"]),
            kafka=str(told["kafka"]),
            http=None if http is None else str(http),
            started_at_ms=int(told["started_at_ms"]),
            start_s={str(phase): float(took) for phase, took in told.get("start_s", {}).items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return status if is_alive(status.pid, status.process_started) else None


def mark_decommissioned(folder: str | os.PathLike[str]) -> None:
    """OSError if it cannot be said; the cluster refuses the broker all the same."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / DECOMMISSIONED).touch()


def is_decommissioned(folder: str | os.PathLike[str]) -> bool:
    return (Path(folder) / DECOMMISSIONED).exists()


def is_alive(pid: int, process_started: int) -> bool:
    """Whether the process that had this pid, and began then, still runs."""
    state = process_state(pid)
    return state is not None and state.started == process_started


def process_state(pid: int) -> ProcessState | None:
    """None: no process with this pid runs."""
    if pid <= 0:
        return None
    if not (PROC / "self").exists():
        return _process_state_by_signal(pid)
    try:
        line = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program, in parentheses, may contain anything. What follows are fields 3 to 52.
    fields = line.rpartition(")")[2].split()
    if fields[0] in ENDED:
        return None
    return ProcessState(int(fields[19]), paused=fields[0] == STOPPED)


def process_age_s() -> float:
    """Since this process began; 0 where the system does not tell."""
    own = process_state(os.getpid())
    if own is None or not own.started:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - own.started / os.sysconf("SC_CLK_TCK")


def _process_state_by_signal(pid: int) -> ProcessState | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # it lives, and is somebody else's
        return ProcessState(0)
    return ProcessState(0)


def write_json(path: Path, value: Any) -> None:
    """Replace a small file at once: whoever reads sees the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):  # the first failure is the one to hear of
            temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """None: the file is not there, or is no JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None
