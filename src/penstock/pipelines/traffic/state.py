"""A State as bytes, for Spark's state store.

It carries the map and the window that it was counted with: numbers of cells mean nothing on another map.

    length of the header, 4 bytes, big endian
    header, JSON: the numbers of the state, and for each window its start and how many keys and cells it has;
        spaces at its end, up to a multiple of 8 bytes from the beginning
    for each window its keys, cells, counts and speeds: int64, little endian

Arrays are used as they lie in the bytes, so that taking up a state of many megabytes costs nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import orjson

from penstock.pipelines.traffic.tally import REASONS, Ints, Shape, State, Window

VERSION: Final = 1
_LENGTH: Final = 4
_NUMBER: Final = 8
_NUMBERS: Final = ("sent", "counted", "late", "duplicate", "newest")


class StateError(Exception):
    """Bytes that are no state of this version, or of another map or window."""


def encode(state: State, shape: Shape) -> bytes:
    header = orjson.dumps(
        {"version": VERSION, "shape": str(shape)}
        | {name: getattr(state, name) for name in _NUMBERS}
        | {
            "reasons": dict(zip(REASONS, state.reasons, strict=True)),
            "windows": [(window.start, len(window.seen), len(window.cells)) for window in state.windows],
        }
    )
    header += b" " * (-(_LENGTH + len(header)) % _NUMBER)
    parts = [len(header).to_bytes(_LENGTH, "big"), header]
    for window in state.windows:
        for column in (window.seen, window.cells, window.counts, window.speeds):
            parts.append(column.astype("<i8", copy=False).tobytes())  # noqa: PERF401  # two loops read better
    return b"".join(parts)


def decode(data: bytes, shape: Shape) -> State:
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
    try:
        header: dict[str, Any] = orjson.loads(data[_LENGTH:end])
    except orjson.JSONDecodeError as error:
        raise StateError(f"the state's header is damaged: {error}") from error
    if header.get("version") != VERSION:
        raise StateError(f"a state of version {header.get('version')!r}, not {VERSION}")
    if header["shape"] != str(shape):
        raise StateError(f"the checkpoint is for {header['shape']}, and not for {shape}")
    counts = header["reasons"]
    columns = _Columns(data, end)
    windows = tuple(
        Window(start, columns.take(keys), columns.take(cells), columns.take(cells), columns.take(cells))
        for start, keys, cells in header["windows"]
    )
    columns.require_end()
    return State(
        **{name: header[name] for name in _NUMBERS},
        reasons=tuple(counts.get(reason, 0) for reason in REASONS),
        windows=windows,
    )


class _Columns:
    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._at = start

    def take(self, count: int) -> Ints:
        begin, self._at = self._at, self._at + _NUMBER * count
        if self._at > len(self._data):
            raise StateError("the state is cut off")
        return np.frombuffer(self._data, "<i8", count, begin)

    def require_end(self) -> None:
        if self._at != len(self._data):
            raise StateError(f"{len(self._data) - self._at} bytes behind the end of the state")
