"""Processes and their children, as Linux tells of them: for whoever has to find one to kill it."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
UTIME = 11
"""Of the fields that `stat_fields` gives; the next one is the time in the kernel."""


def children() -> dict[int, list[int]]:
    """By parent."""
    found: dict[int, list[int]] = defaultdict(list)
    for pid in everybody():
        if (fields := stat_fields(pid)) is not None:
            found[int(fields[1])].append(pid)
    return found


def everybody() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def stat_fields(pid: int) -> list[str] | None:
    """Of `/proc/<pid>/stat`, from the state on; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            told = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return told.rpartition(b")")[2].decode().split()  # the name in parentheses may have anything in it


def ticks_of(pid: int) -> int | None:
    """Time of the processor so far; None if there is no such process."""
    fields = stat_fields(pid)
    return int(fields[UTIME]) + int(fields[UTIME + 1]) if fields is not None else None


def name_of(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return (PROC / str(pid) / "comm").read_text(errors="replace").strip()
    return ""


def command_of(pid: int) -> list[str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").split("\0")[:-1]
    return []


def descendants(pid: int) -> list[int]:
    """All of them, parents before their children."""
    by_parent = children()
    found: list[int] = []
    waiting = [pid]
    while waiting:
        born = by_parent[waiting.pop()]
        found += born
        waiting += born
    return found


class Family:
    """The descendants of a process and their processor time, for whoever asks again and again.

    Only they and who is new are looked at: a stranger whose parent is a stranger stays one.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._strangers: set[int] = set()

    def ticks(self) -> dict[int, int]:
        """Of all that are alive, parents before their children."""
        alive = set(everybody())
        self._strangers &= alive
        told = {pid: fields for pid in alive - self._strangers if (fields := stat_fields(pid)) is not None}
        born: dict[int, list[int]] = defaultdict(list)
        for pid, fields in told.items():
            born[int(fields[1])].append(pid)
        found: dict[int, int] = {}
        waiting = [self._pid]
        while waiting:
            for pid in born[waiting.pop()]:
                fields = told[pid]
                found[pid] = int(fields[UTIME]) + int(fields[UTIME + 1])
                waiting.append(pid)
        self._strangers |= told.keys() - found.keys() - {self._pid}
        return found


def group(number: int) -> list[int]:
    """What is alive in a process group."""
    told = {pid: fields for pid in everybody() if (fields := stat_fields(pid)) is not None}
    return [pid for pid, fields in told.items() if int(fields[2]) == number and fields[0] != "Z"]


def kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """Whether it was there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def memory_bytes(pid: int) -> int:
    """The most that it has ever had at once."""
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory")
