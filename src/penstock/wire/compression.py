"""The four codecs of a record batch. Only compaction, lookup by time and Penstock's state open batches."""

from __future__ import annotations

import struct
from typing import Final

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

NAMES: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

DECOMPRESSED_SIZE_MAX: Final = 64 * 1024 * 1024
"""Of one batch. A larger one is carried like any other, but never opened by the broker."""

_INTO: Final = {
    GZIP: cramjam.gzip.decompress_into,
    SNAPPY: cramjam.snappy.decompress_raw_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}
_TOO_SMALL: Final = ("write whole buffer", "smaller than required")

# Java clients wrap snappy in the framing of the xerial library: magic, two version numbers, then blocks
# each led by its 4-byte length. librdkafka writes both forms.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_BLOCK_LENGTH = struct.Struct(">i")


class CompressionError(Exception):
    """The compressed bytes cannot be opened."""


class TooLargeError(CompressionError):
    """They are not opened, for what they would become."""


def decompress(codec: int, data: bytes | memoryview, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """The plain bytes. What is damaged, or would be larger than `size_max`, is a CompressionError."""
    if codec == NONE:
        return bytes(data)
    if codec == SNAPPY and bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        return _decompress_blocks(data, size_max)
    into = _INTO.get(codec)
    if into is None:
        raise CompressionError(f"unknown codec {codec}")
    # A few bytes can stand for gigabytes, so the room is given in steps and ends at the limit.
    room = min(max(len(data) * 8, 64 * 1024), size_max)
    while True:
        plain = bytearray(room)
        try:
            return bytes(memoryview(plain)[: into(data, plain)])
        except cramjam.DecompressionError as error:
            if not any(word in str(error) for word in _TOO_SMALL):
                raise CompressionError(str(error)) from error
            if room == size_max:
                raise TooLargeError(str(error)) from error
        room = min(room * 4, size_max)


def compress(codec: int, data: bytes) -> bytes:
    match codec:
        case 0:
            return data
        case 1:
            return bytes(cramjam.gzip.compress(data))
        case 2:
            return bytes(cramjam.snappy.compress_raw(data))
        case 3:
            # Kafka's own reader knows independent blocks only.
            compressor = cramjam.lz4.Compressor(level=4, content_checksum=False, block_linked=False)
            compressor.compress(data)
            return bytes(compressor.finish())
        case 4:
            return bytes(cramjam.zstd.compress(data))
    raise CompressionError(f"unknown codec {codec}")


def _decompress_blocks(data: bytes | memoryview, size_max: int) -> bytes:
    blocks = []
    position = _XERIAL_HEADER_SIZE
    while position < len(data):
        if position + _BLOCK_LENGTH.size > len(data):
            raise CompressionError("snappy data ends inside a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if length < 0 or position + length > len(data):
            raise CompressionError("snappy block is longer than the data")
        blocks.append(decompress(SNAPPY, data[position : position + length], size_max))
        size_max -= len(blocks[-1])
        position += length
    return b"".join(blocks)
