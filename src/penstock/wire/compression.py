"""The four codecs of a record batch. Only compaction, lookup by time and Penstock's state open batches."""

from __future__ import annotations

import struct
from typing import Final

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

NAMES: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

# Java clients wrap snappy in the framing of the xerial library: magic, two version numbers, then blocks
# each led by its 4-byte length. librdkafka writes both forms.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_BLOCK_LENGTH = struct.Struct(">i")


class CompressionError(Exception):
    """The compressed bytes cannot be opened."""


def decompress(codec: int, data: bytes | memoryview) -> bytes:
    try:
        match codec:
            case 0:
                return bytes(data)
            case 1:
                return bytes(cramjam.gzip.decompress(data))
            case 2:
                return _decompress_snappy(bytes(data))
            case 3:
                return bytes(cramjam.lz4.decompress(data))
            case 4:
                return bytes(cramjam.zstd.decompress(data))
    except (cramjam.DecompressionError, struct.error, ValueError) as error:
        raise CompressionError(str(error)) from error
    raise CompressionError(f"unknown codec {codec}")


def compress(codec: int, data: bytes) -> bytes:
    match codec:
        case 0:
            return data
        case 1:
            return bytes(cramjam.gzip.compress(data))
        case 2:
            return bytes(cramjam.snappy.compress_raw(data))
        case 3:
            return bytes(cramjam.lz4.compress(data))
        case 4:
            return bytes(cramjam.zstd.compress(data))
    raise CompressionError(f"unknown codec {codec}")


def _decompress_snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks = []
    position = _XERIAL_HEADER_SIZE
    while position < len(data):
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if length < 0 or position + length > len(data):
            raise CompressionError("snappy block is longer than the data")
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[position : position + length])))
        position += length
    return b"".join(blocks)
