"""A folder that one process at a time works in: a file in it says what it is for, and is locked meanwhile."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class FolderError(Exception):
    """The folder cannot be used; the message is one line."""


@contextmanager
def claimed(folder: Path, about: str, content: bytes, *, kind: str, owner: str) -> Iterator[bytes]:
    """Makes the folder, with `content` in the file `about`, unless it is there; gives what that file says.

    `kind` and `owner` are what errors call the folder and whoever works in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / about
        if not path.exists() and any(folder.iterdir()):
            raise FolderError(f"{folder} is not empty, and no {kind}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise FolderError(f"{folder} cannot be used as {kind}: {error.strerror}") from error
    with open(descriptor, "r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderError(f"{folder} is in use by another {owner}") from error
        found = file.read()
        if not found:
            file.write(content)
            os.fsync(file.fileno())
        yield found or content
