"""Whether the last process that used a data folder ended as it should.

Under `flush=os` what was acknowledged may be in the page cache only. It survives the end of a process, and
not that of the machine. A mark in the folder, with the id of the machine's boot, is there while a process
runs; found at the start with another boot's id, it says that something may be gone. It says so until some
process has ended as it should: one that is killed before it has told anybody must not be the last to know.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.storage.disk import Disk, write_atomically

FILE: Final = ".running"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def begin(folder: Path) -> bool:
    """Leave the mark, durably. Whether the page cache of the last process is still there, if needed."""
    mark, boot_id = folder / FILE, current_boot_id()
    try:
        found = mark.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        disk = Disk()
        write_atomically(disk, str(mark), f"{boot_id}\n".encode("ascii"))
        disk.fsync_dir(str(folder))
        return True
    return found == boot_id and bool(boot_id)


def end(folder: Path) -> None:
    """The folder is left as after a clean stop."""
    (folder / FILE).unlink(missing_ok=True)


def current_boot_id() -> str:
    """Empty where the system has none: then every unclean stop counts."""
    with suppress(OSError):
        return BOOT_ID.read_text(encoding="ascii").strip()
    return ""
