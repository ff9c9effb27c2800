"""Who watches the supervisor: the active controller, elected among the nodes that the supervisor watches.

It calls `ensure_running` about once a second. As long as the supervisor lives that costs the reading of two
small files. If it has died without meaning to, a new one is started, which adopts the nodes that run. Two
that are started at once are no harm: the folder's lock admits one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.supervisor.folder import RUNNING, ClusterFolder

SUCCESSOR_COMMAND: Final = (sys.executable, "-m", "penstock", "up", "--adopt", "--data")
"""Runs a supervisor that takes over; the path of the folder is added."""
AGAIN_S: Final = 3.0
"""A supervisor that was just called is still starting; no second one before that."""
CALLED: Final = ".supervisor.called"
DETACHED: Final = 'log="$1"; shift; "$@" </dev/null >>"$log" 2>&1 &'
"""For a shell that ends at once: so the supervisor is nobody's child, and its end leaves no zombie."""


def ensure_running(data: str | os.PathLike[str], command: Sequence[str] = SUCCESSOR_COMMAND) -> bool:
    """Whether a new supervisor was called. OSError: it could not be.

    Nothing is done for a cluster that its supervisor stopped or is stopping.
    """
    folder = ClusterFolder(data)
    status = folder.read_supervisor()
    if status is None or status.state != RUNNING or status.is_alive:
        return False
    if not may_call(folder.path / CALLED):
        return False
    subprocess.run(  # noqa: S603 - this interpreter and this package
        ["/bin/sh", "-c", DETACHED, "sh", str(folder.log), *command, str(folder.path)],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    return True


def may_call(mark: Path) -> bool:
    """At most one call in a while, by whichever controller."""
    try:
        age_s = time.time() - mark.stat().st_mtime
    except FileNotFoundError:
        age_s = AGAIN_S
    if 0 <= age_s < AGAIN_S:
        return False
    mark.touch()
    return True
