"""Frames: a 4-byte big-endian length, then that many bytes.

`FrameDecoder` is a pure state machine: the driver asks where to receive the next bytes (`buffer`), says how
many came (`received`), and takes the frames that are complete. All decoders of an event loop share one
scratch buffer, which holds nothing between two calls: an idle connection costs no buffer at all, and a
frame that does not arrive at once is received straight into memory of its own.

That memory is given in steps and only by the driver: a peer that announces a giant frame gets a small first
allocation, then `wants_memory` turns true and the driver decides when to `grow`.

Memory of the usual size comes from a `FramePool`: fresh memory has to be cleared and mapped each time, which
costs more than receiving into it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

LENGTH_SIZE: Final = 4
SCRATCH_SIZE: Final = 64 * 1024
FIRST_ALLOCATION_SIZE: Final = 1024 * 1024 + 4096
"""Holds a whole produce request of the usual `max.message.bytes`; more than SCRATCH_SIZE."""
POOLED_SIZE_MIN: Final = 64 * 1024
"""A smaller frame is not worth a whole buffer of the pool."""

_LENGTH = struct.Struct(">i")


class FrameError(Exception):
    """The peer does not speak the protocol, or sent a frame over the limit."""


class FramePool:
    """Buffers of FIRST_ALLOCATION_SIZE that are used again once nobody looks at them any more.

    Nobody has to give a buffer back: a bytearray cannot be resized while a view of it exists, wherever that
    view is, so trying to resize it tells whether it is free.
    """

    def __init__(self, size_max: int) -> None:
        self._buffers: list[bytearray] = []
        self._size_max = size_max

    def take(self) -> bytearray | None:
        """A buffer that nobody uses, with whatever was in it before; None if all of them are in use."""
        # Always the first that is free: it was used last, and the processor's caches still know it.
        for buffer in self._buffers:
            try:
                buffer.append(0)
            except BufferError:
                continue
            buffer.pop()
            return buffer
        if len(self._buffers) == self._size_max:
            return None
        self._buffers.append(bytearray(FIRST_ALLOCATION_SIZE))
        return self._buffers[-1]


class FrameDecoder:
    def __init__(
        self, scratch: memoryview, pool: FramePool, frame_size_max: int, *, trusts_peer: bool = False
    ) -> None:
        """`trusts_peer`: a frame gets all the memory that it announces, at once."""
        self._trusts_peer = trusts_peer
        self._scratch = scratch
        self._pool = pool
        self._frame_size_max = frame_size_max
        self._length_bytes = b""  # of a length that has not arrived whole
        self._frame: memoryview | None = None  # being received
        self._frame_length = 0
        self._filled = 0

    @property
    def held_bytes(self) -> int:
        """Memory held for a frame that is not complete."""
        return 0 if self._frame is None else len(self._frame)

    @property
    def in_frame(self) -> bool:
        return self._frame is not None or bool(self._length_bytes)

    @property
    def wants_memory(self) -> bool:
        """Nothing more can be received until `grow` is called."""
        return self._frame is not None and self._filled == len(self._frame)

    def grow(self) -> None:
        """Give the frame in progress more memory: twice what it has, up to its announced length."""
        assert self._frame is not None
        size = len(self._frame)
        grown = bytearray(min(size + max(size, FIRST_ALLOCATION_SIZE), self._frame_length))
        grown[:size] = self._frame
        self._frame = memoryview(grown)

    def buffer(self) -> memoryview:
        """Where the driver must receive the next bytes; never empty unless `wants_memory`."""
        if self._frame is None:
            return self._scratch
        return self._frame[self._filled :]

    def received(
        self, size: int, *, allocation_max: int = FIRST_ALLOCATION_SIZE
    ) -> Sequence[bytes | memoryview]:
        """Take note of `size` bytes received into `buffer()`; returns the frames now complete.

        The frames are read-only and stay valid: their memory is not used again. A frame that begins here
        and is not complete gets at most `allocation_max` bytes of memory beyond what has arrived.
        """
        if self._frame is None:
            return self._split(self._scratch[:size], allocation_max)
        self._filled += size
        if self._filled < self._frame_length:
            return ()
        frame = self._frame.toreadonly()
        self._frame = None
        return (frame,)

    def _split(self, data: memoryview, allocation_max: int) -> Sequence[bytes | memoryview]:
        if self._length_bytes:
            data = memoryview(self._length_bytes + bytes(data))
            self._length_bytes = b""
        frames: list[bytes | memoryview] = []
        position, end = 0, len(data)
        while end - position >= LENGTH_SIZE:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 <= length <= self._frame_size_max:
                raise FrameError(f"frame of {length} bytes; the limit is {self._frame_size_max}")
            position += LENGTH_SIZE
            if end - position < length:
                self._begin_frame(length, data[position:], allocation_max)
                return frames
            frames.append(bytes(data[position : position + length]))
            position += length
        self._length_bytes = bytes(data[position:])
        return frames

    def _begin_frame(self, length: int, start: memoryview, allocation_max: int) -> None:
        if self._trusts_peer:
            allocation_max = length
        elif length > FIRST_ALLOCATION_SIZE:
            allocation_max = min(allocation_max, SCRATCH_SIZE)  # first let it show that it means it
        size = min(length, max(allocation_max, len(start)))
        pooled = self._pool.take() if POOLED_SIZE_MIN <= size == length else None
        self._frame = memoryview(bytearray(size) if pooled is None else pooled)[:size]
        self._frame[: len(start)] = start
        self._frame_length = length
        self._filled = len(start)
