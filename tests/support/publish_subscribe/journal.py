"""A file of records, each written whole or not at all: an application may keep messages and positions in it.

A record is its length, a checksum and JSON. One that a crash cut off is no record: it ends the file for
whoever reads it. Every life of a process writes a file of its own, so a cut is always at an end.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER = struct.Struct(">II")
SUFFIX = ".journal"

Record = dict[str, Any]


def encode(record: Record) -> bytes:
    payload = json.dumps(record).encode()
    return HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def decode(data: bytes) -> Iterator[tuple[Record, int]]:
    """The whole records at the start of the data, each with the place where it ends."""
    place = 0
    while len(data) - place >= HEADER.size:
        length, checksum = HEADER.unpack_from(data, place)
        payload = data[place + HEADER.size : place + HEADER.size + length]
        if len(payload) != length or zlib.crc32(payload) != checksum:
            return
        place += HEADER.size + length
        yield json.loads(payload), place


class Journal:
    """What one life writes."""

    def __init__(self, folder: Path, life: int) -> None:
        self._file = os.open(path_of(folder, life), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def append(self, record: Record, *, durable: bool = False) -> None:
        """In two pieces, so that a kill can come in between, as the death of a machine can."""
        data = encode(record)
        half = len(data) // 2
        os.write(self._file, data[:half])
        os.write(self._file, data[half:])
        if durable:
            os.fsync(self._file)


def path_of(folder: Path, life: int) -> Path:
    return folder / f"{life:05}{SUFFIX}"


class Journals:
    """All lives of a process, read while it goes on writing: each `read` takes what came since the last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: dict[int, int] = {}
        self._records: dict[int, list[Record]] = {}

    def read(self, first: int = 1) -> list[tuple[int, Record]]:
        """The new records of the life `first` and later ones, each with its life."""
        new = []
        names = [name for name in os.listdir(self._folder) if name.endswith(SUFFIX)]
        for life in sorted(int(name.removesuffix(SUFFIX)) for name in names):
            end = self._ends.get(life, 0)
            path = path_of(self._folder, life)
            if life < first or path.stat().st_size == end:
                continue
            with path.open("rb") as file:
                file.seek(end)
                data = file.read()
            for record, place in decode(data):
                self._records.setdefault(life, []).append(record)
                self._ends[life] = end + place
                new.append((life, record))
        return new

    @property
    def lives(self) -> list[list[Record]]:
        """Those that have written something."""
        return [self._records[life] for life in sorted(self._records)]

    @property
    def records(self) -> Iterator[Record]:
        return (record for life in self.lives for record in life)


def read_journals(folder: Path) -> Journals:
    journals = Journals(folder)
    journals.read()
    return journals
