"""The chunks of a file by their numbers.

Each begins where the one before ends, so a chunk can be cut if that place is known. The places are
remembered: going back costs nothing, and going forward cuts what is in between.
"""

from __future__ import annotations

import os
import stat
from array import array
from types import TracebackType

from penstock.flights.chunks import CHUNK_BYTES_MAX, COLUMNS, ChunkError, cut
from penstock.flights.errors import UploadError
from penstock.pipelines.flights.header import CsvError, parse_header


class NumberedChunks:
    """Of the file at `path`, which is the job's `file`: `airports` or `itineraries`.

    Everything that is wrong with it is an UploadError. A file without the columns that are needed is found
    out at once.
    """

    def __init__(self, path: str, file: str, chunk_bytes: int = CHUNK_BYTES_MAX) -> None:
        self.path = path
        self._chunk_bytes = chunk_bytes
        self._starts = array("Q", [0])
        """Of every chunk that is known, and of the one after."""
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block
        except OSError as error:
            raise UploadError(f"{path}: {error.strerror}") from error
        try:
            self.size = self._check(file)
        except BaseException:
            self.close()
            raise

    def _check(self, file: str) -> int:
        try:
            about = os.fstat(self._fd)
            if stat.S_ISDIR(about.st_mode):
                raise UploadError(f"{self.path}: Is a directory")
            if not stat.S_ISREG(about.st_mode):
                raise UploadError(f"{self.path}: not a regular file, which could be read again")
            line = os.pread(self._fd, CHUNK_BYTES_MAX, 0).partition(b"\n")[0]
            parse_header(line, *COLUMNS[file], self.path)
        except OSError as error:
            raise UploadError(f"{self.path}: {error.strerror}") from error
        except CsvError as error:
            raise UploadError(str(error)) from error
        return about.st_size

    def at(self, number: int) -> bytes | None:
        """The chunk of this number; None if there are exactly so many."""
        try:
            while len(self._starts) <= number:
                if self._chunk(len(self._starts) - 1) is None:
                    raise UploadError(
                        f"{self.path}: it has {len(self._starts) - 1} chunks, and the job has {number}: "
                        "it is not the same file"
                    )
            return self._chunk(number)
        except OSError as error:
            raise UploadError(f"{self.path}: {error.strerror}") from error
        except ChunkError:
            raise UploadError(f"{self.path}: {self._complaint()}") from None

    def start(self, number: int) -> int:
        """Bytes of all chunks before this one, which must be known already."""
        return self._starts[number]

    def require_size(self, there: int) -> None:
        """Of the whole file on the other side, where a last line feed may have been added."""
        if there not in (self.size, self.size + 1):
            raise UploadError(
                f"{self.path}: it has {self.size} bytes, and that of the job {there}: it is not the same file"
            )

    def _chunk(self, number: int) -> bytes | None:
        chunk = self._cut_at(self._starts[number])
        if chunk is not None and number == len(self._starts) - 1:
            self._starts.append(self._starts[number] + len(chunk))
        return chunk

    def _cut_at(self, position: int) -> bytes | None:
        return next(cut(Reading(self._fd, position), self._chunk_bytes), None)

    def _complaint(self) -> str:
        """Cut from the top, so that the number of the line is right."""
        try:
            for _ in cut(Reading(self._fd, 0), self._chunk_bytes):
                pass
        except ChunkError as error:
            return str(error)
        return "it has changed while it was read"

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> NumberedChunks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Reading:
    """A position in a file that others read too."""

    def __init__(self, fd: int, position: int) -> None:
        self._fd = fd
        self._position = position

    def __call__(self, size: int) -> bytes:
        data = os.pread(self._fd, size, self._position)
        self._position += len(data)
        return data
