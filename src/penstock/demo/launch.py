"""Becomes the command that it is given, after asking Linux to end it when its parent ends.

Run as a script by a bare interpreter: `launch.py PARENT_PID NICENESS COMMAND…`. It is a process of its own
because code between fork and exec is not safe in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1  # of Linux' sys/prctl.h


def main(parent: str, niceness: str, *command: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it ended before it was asked for
            sys.exit(1)
    os.nice(int(niceness))
    os.execv(command[0], command)  # noqa: S606 - there is no shell because none is needed


if __name__ == "__main__":
    main(*sys.argv[1:])
