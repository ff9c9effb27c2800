"""Sending a signal to a process of Penstock that is known by its number alone.

Numbers are given again, and some come from records that anybody may have written: the process must be what it
is said to be. Zero and negative numbers are whole groups of processes to the system, and are nobody's.
"""

from __future__ import annotations

import os
from pathlib import Path

FIRST_PID = 2
"""The first process of a system is its own."""


class WrongProcessError(Exception):
    """The process is something else than what was meant."""


def check_process(pid: int, mark: bytes) -> None:
    """`mark` is part of its command line. ProcessLookupError if there is no such process."""
    if pid < FIRST_PID:
        raise WrongProcessError(f"{pid} is the number of no process of Penstock")
    if not Path("/proc/self").exists():
        return  # a system that does not tell
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError as error:
        raise ProcessLookupError(f"there is no process {pid}") from error
    if not command:  # a zombie has none, nor a process between its fork and its program
        raise ProcessLookupError(f"process {pid} has ended, or has not begun yet")
    if mark not in command:
        raise WrongProcessError(f"process {pid} is something else")


def send_signal(pid: int, number: int, mark: bytes) -> None:
    """ProcessLookupError, PermissionError or WrongProcessError if it does not get there."""
    check_process(pid, mark)
    os.kill(pid, number)
