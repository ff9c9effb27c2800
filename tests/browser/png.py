"""PNG pictures made smaller: a browser writes them fast, not small.

Each line is filtered in the way that leaves the smallest differences, and all is compressed as well as zlib
can. If that is not enough, the last bits of the colours go, which a soft gradient hides best.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB, RGBA = 2, 6
LOST_BITS_MAX = 4


class PictureError(Exception):
    """It is not a picture that can be read here, or can not be made so small."""


def shrink(picture: bytes, bytes_max: int) -> bytes:
    """The same picture in at most so many bytes; as little as possible is lost."""
    pixels = decode(picture)
    for lost_bits in range(LOST_BITS_MAX + 1):
        smaller = encode(rounded(pixels, lost_bits))
        if len(smaller) <= bytes_max:
            return smaller
    raise PictureError(f"it does not go into {bytes_max} bytes")


def rounded(pixels: Pixels, lost_bits: int) -> Pixels:
    step = 1 << lost_bits
    # White stays white: the last step is the shorter one.
    wide = (pixels.astype(np.int16) + step // 2) // step * step
    return np.minimum(wide, 255).astype(np.uint8)


def decode(picture: bytes) -> Pixels:
    """Height x width x 3; transparency, of which a screenshot has none, is dropped."""
    if not picture.startswith(SIGNATURE):
        raise PictureError("it is not PNG")
    chunks = dict[bytes, bytes]()
    place = len(SIGNATURE)
    while place < len(picture):
        length, kind = struct.unpack_from(">I4s", picture, place)
        chunks[kind] = chunks.get(kind, b"") + picture[place + 8 : place + 8 + length]
        place += 12 + length
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or colours not in (RGB, RGBA) or interlaced:
        raise PictureError("it is of a kind that browsers do not write")
    samples = 3 if colours == RGB else 4
    length = width * samples
    data = zlib.decompress(chunks[b"IDAT"])
    lines = [bytes(length)]
    for start in range(0, height * (length + 1), length + 1):
        line = bytearray(data[start + 1 : start + 1 + length])
        unfilter(data[start], line, lines[-1], samples)
        lines.append(bytes(line))
    pixels = np.frombuffer(b"".join(lines[1:]), np.uint8).reshape(height, width, samples)
    return pixels[:, :, :3]


def unfilter(kind: int, line: bytearray, above: bytes, samples: int) -> None:
    """In place. Each byte depends on the one before, so this is a loop: numpy is no help."""
    for i in range(len(line)):
        left = line[i - samples] if i >= samples else 0
        over = above[i]
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = over
        elif kind == 3:
            guess = (left + over) // 2
        elif kind == 4:
            corner = above[i - samples] if i >= samples else 0
            to_left, to_over, to_corner = (
                abs(over - corner),
                abs(left - corner),
                abs(left + over - 2 * corner),
            )
            guess = (
                left
                if to_left <= to_over and to_left <= to_corner
                else over
                if to_over <= to_corner
                else corner
            )
        else:
            return
        line[i] = (line[i] + guess) & 255


def paeth(left: NDArray[np.int16], over: NDArray[np.int16], corner: NDArray[np.int16]) -> NDArray[np.int16]:
    """Whichever of the three is nearest to left + over - corner."""
    to_left, to_over = np.abs(over - corner), np.abs(left - corner)
    to_corner = np.abs(left + over - 2 * corner)
    near = np.where(to_over <= to_corner, over, corner)
    return np.where((to_left <= to_over) & (to_left <= to_corner), left, near)


def encode(pixels: Pixels) -> bytes:
    height, width, _ = pixels.shape
    wide = pixels.astype(np.int16)
    left, over, corner = np.zeros_like(wide), np.zeros_like(wide), np.zeros_like(wide)
    left[:, 1:] = wide[:, :-1]
    over[1:] = wide[:-1]
    corner[1:, 1:] = wide[:-1, :-1]
    guesses = (np.zeros_like(wide), left, over, (left + over) // 2, paeth(left, over, corner))
    filtered = np.stack([(wide - guess).astype(np.uint8).reshape(height, -1) for guess in guesses])
    sizes = np.abs(filtered.view(np.int8).astype(np.int16)).sum(axis=2, dtype=np.int64)
    best = sizes.argmin(axis=0)
    lines = np.concatenate([best.astype(np.uint8)[:, None], filtered[best, np.arange(height)]], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, RGB, 0, 0, 0)
    data = zlib.compress(lines.tobytes(), 9)
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
