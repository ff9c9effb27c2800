"""Sending a signal to a process of Penstock that is known by its number alone.

Numbers are given again, and some come from records that anybody may have written: the process must be what it
is said to be. Zero and negative numbers are whole groups of processes to the system, and are nobody's.

A node that stands still is ended by its supervisor (supervisor/watchdog.py), unless it was meant to: whoever
pauses it here leaves its pid in the file `paused` beside the file of its settings.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

SETTINGS = b"/node.toml"
"""How the path of a supervised node's settings ends, which is on its command line."""
PAUSED = "paused"
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
    command = command_line(pid)
    if not command:  # a zombie has none, nor a process between its fork and its program
        raise ProcessLookupError(f"process {pid} has ended, or has not begun yet")
    if mark not in command:
        raise WrongProcessError(f"process {pid} is something else")


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError as error:
        raise ProcessLookupError(f"there is no process {pid}") from error


def send_signal(pid: int, number: int, mark: bytes) -> None:
    """ProcessLookupError, PermissionError or WrongProcessError if it does not get there."""
    check_process(pid, mark)
    if number in (signal.SIGSTOP, signal.SIGCONT):
        note_pause(pid, is_paused=number == signal.SIGSTOP)
    os.kill(pid, number)


def note_pause(pid: int, *, is_paused: bool) -> None:
    """Say that the process is paused on purpose, or no more. Does nothing for one that has no supervisor."""
    if not Path("/proc/self").exists():
        return
    for argument in command_line(pid).split(b"\0"):
        if argument.endswith(SETTINGS):
            paused = Path(os.fsdecode(argument)).with_name(PAUSED)
            if is_paused:
                paused.write_text(f"{pid}\n", encoding="ascii")
            else:
                paused.unlink(missing_ok=True)


def is_paused_on_purpose(settings: Path, pid: int) -> bool:
    """`settings`: the file of the node's settings."""
    try:
        return settings.with_name(PAUSED).read_text(encoding="ascii") == f"{pid}\n"
    except (OSError, UnicodeDecodeError):
        return False
