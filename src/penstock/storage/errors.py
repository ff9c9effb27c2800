"""The one exception that storage raises for what the machine did to it."""

from __future__ import annotations

import os


class StorageError(Exception):
    """One clear line: what failed, where, and the system's own words for why."""


class DamagedEndError(StorageError):
    """Cutting what is damaged could lose what was acknowledged, so the log is not opened."""


class RotError(StorageError):
    """What is stored there is not what was written. The rest of the log can be read."""


class HalfDoneError(StorageError):
    """A change of several files stopped half way: what is in memory no longer describes them."""


def os_failure(what: str, where: str, error: OSError) -> StorageError:
    """The line for a failed system call, such as `cannot write a/0.log: No space left on device`."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StorageError(f"cannot {what} {where}: {reason}")
