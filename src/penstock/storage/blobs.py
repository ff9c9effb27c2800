"""Small named values with a checksum: epochs, producer snapshots, checkpoints.

A sealed blob is one line `penstock 1 <CRC-32C in hex>` and then its JSON, so that damage is noticed and a
person can still read the file.
"""

from __future__ import annotations

import json
from typing import Any

from crc32c import crc32c

_PREFIX = b"penstock 1 "
_BODY_START = len(_PREFIX) + 9


def seal(value: object) -> bytes:
    body = json.dumps(value, separators=(",", ":")).encode()
    return b"%s%08x\n%s" % (_PREFIX, crc32c(body), body)


def unseal(data: bytes | None) -> Any:
    """The sealed value, or None when it is missing or damaged."""
    if data is None or not data.startswith(_PREFIX):
        return None
    body = data[_BODY_START:]
    if data[len(_PREFIX) : _BODY_START] != b"%08x\n" % crc32c(body):
        return None
    return json.loads(body)
