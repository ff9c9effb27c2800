"""What processes print, in files of a bounded size.

A process goes on writing to the file it was started with, so that is not moved but emptied: its end is copied
to a second file, and what was written between copying and emptying is lost. The process appends (`O_APPEND`),
so its next line is the first of the empty file.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

LOG_BYTES_MAX: Final = 10 * 1024 * 1024
"""Of one file. There are two for each process, the one before as `….1`."""


class OutputLogs:
    """Keeps files short while processes write to them, and says once of each that it cannot."""

    def __init__(self) -> None:
        self._named: set[Path] = set()

    def keep_short(self, path: Path) -> bool:
        try:
            is_emptied = keep_short(path)
        except OSError as error:
            if path not in self._named:
                log.warning("%s cannot be shortened: %s", path, error.strerror)
            self._named.add(path)
            return False
        self._named.discard(path)
        return is_emptied


def keep_short(path: Path, bytes_max: int = LOG_BYTES_MAX) -> bool:
    """Whether the file was too long, and is empty now. OSError."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    if size <= bytes_max:
        return False
    before = path.with_name(f"{path.name}.1")
    before.unlink(missing_ok=True)  # a full disk may have room for it then
    with path.open("rb") as written, before.open("wb") as kept:
        written.seek(-bytes_max, os.SEEK_END)
        kept.write(written.read(bytes_max))  # no more, however fast the process writes
    os.truncate(path, 0)
    return True
