"""Files and secrets of a server are its user's alone."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
OTHERS: Final = 0o077
"""Group and everybody else."""
OURS: Final = ("meta.json", "cluster.json")
"""What a data folder of a node, or of a cluster, holds."""
PASSWORD: Final = re.compile(r"://[^/@]*:[^/]*@|[?&](ssl)?password=")


def keep_private(data: Path | None = None) -> None:
    """What this process and its children create is for this user alone; so is the data folder as a whole."""
    os.umask(OTHERS)
    if data is not None and is_open(data):
        try:
            data.chmod(FOLDER_MODE)
        except OSError as error:
            print(f"penstock: others can read {data}: {error.strerror}", file=sys.stderr)


def is_open(folder: Path) -> bool:
    """Whether others may look into a data folder. One that holds something else is not for us to close."""
    try:
        names = os.listdir(folder)
        return bool(folder.stat().st_mode & OTHERS) and (not names or any(name in names for name in OURS))
    except OSError:  # it is made later, or cannot be used, which is told then
        return False


def warn_of_password() -> None:
    """Anybody on this machine can read a command line."""
    if any(PASSWORD.search(argument) for argument in sys.argv):
        print(
            "penstock: others can read the password in --storage (ps); PENSTOCK_STORAGE and files of nodes"
            " keep it from them",
            file=sys.stderr,
        )
