"""Frames fed whole, byte by byte, with trailing bytes and with lying lengths."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.frames import FIRST_ALLOCATION_SIZE, SCRATCH_SIZE, FrameDecoder, FrameError, FramePool


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed(
    decoder: FrameDecoder, data: bytes, step: int, allocation_max: int = FIRST_ALLOCATION_SIZE
) -> list[bytes]:
    frames: list[bytes] = []
    while data:
        while decoder.wants_memory:
            decoder.grow()
        buffer = decoder.buffer()
        size = min(step, len(buffer), len(data))
        assert size > 0, "the decoder offers no room"
        buffer[:size] = data[:size]
        data = data[size:]
        frames += map(bytes, decoder.received(size, allocation_max=allocation_max))
    return frames


def decoder(limit: int = 10_000_000) -> FrameDecoder:
    return FrameDecoder(memoryview(bytearray(SCRATCH_SIZE)), FramePool(2), limit)


@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 700), st.sampled_from([1, 64, 4096]))
def test_any_split_gives_the_same_frames(bodies: list[bytes], step: int, allocation_max: int) -> None:
    subject = decoder()
    assert feed(subject, framed(*bodies), step, allocation_max) == bodies
    assert not subject.in_frame
    assert subject.held_bytes == 0


@pytest.mark.parametrize(
    "size", [0, 1, SCRATCH_SIZE - 4, SCRATCH_SIZE - 3, SCRATCH_SIZE, FIRST_ALLOCATION_SIZE, 3_000_001]
)
def test_big_frames_and_their_neighbours(size: int) -> None:
    bodies = [b"a" * 10, bytes(range(256)) * (size // 256) + b"z" * (size % 256), b"c"]
    assert feed(decoder(), framed(*bodies), SCRATCH_SIZE) == bodies


def test_frames_stay_valid_after_more_was_received() -> None:
    scratch = memoryview(bytearray(SCRATCH_SIZE))
    subject = FrameDecoder(scratch, FramePool(2), 1000)
    data = framed(b"first")
    scratch[: len(data)] = data
    (frame,) = subject.received(len(data))
    scratch[:] = bytes(SCRATCH_SIZE)
    assert bytes(frame) == b"first"


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_impossible_lengths_are_refused_at_once(length: int) -> None:
    with pytest.raises(FrameError, match="limit is 1000"):
        feed(decoder(1000), struct.pack(">i", length), 4)


def test_an_announced_giant_gets_memory_only_step_by_step() -> None:
    subject = decoder(100_000_000)
    feed(subject, struct.pack(">i", 100_000_000) + b"x", 5, allocation_max=16_384)
    assert subject.held_bytes == 16_384
    feed(subject, b"x" * 16_383, 16_383)
    assert subject.wants_memory
    assert len(subject.buffer()) == 0
    subject.grow()
    assert subject.held_bytes == 16_384 + FIRST_ALLOCATION_SIZE
    assert not subject.wants_memory


def test_the_pool_gives_a_buffer_again_only_when_nobody_looks_at_it() -> None:
    pool = FramePool(1)
    first = pool.take()
    assert first is not None
    view = memoryview(first)[10:20]
    assert pool.take() is None
    part = view[1:2]
    del view
    assert pool.take() is None, "a slice of a slice counts too"
    del part
    assert pool.take() is first
    assert len(first) == FIRST_ALLOCATION_SIZE


def test_pooled_frames_do_not_overwrite_each_other() -> None:
    subject = decoder()
    bodies = [bytes([number]) * 500_000 for number in range(8)]
    frames: list[bytes | memoryview] = []
    data = framed(*bodies)
    while data:
        buffer = subject.buffer()
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        data = data[size:]
        frames += subject.received(size)
    assert [bytes(frame) for frame in frames] == bodies
