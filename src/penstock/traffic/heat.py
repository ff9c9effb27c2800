"""What is on the topic `traffic.heatmap`: for each cell and window how many positions there were and how fast
they moved, and for the whole map what became of everything that was sent.

The heat map job writes what changed in a micro-batch and then the totals, all to one partition: totals end a
batch. Figures are absolute, so that a batch that is written again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from penstock.client.errors import InvalidMessageError

TOTALS_KEY: Final = b"totals"


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell in one window: from `start_ms` up to and without `end_ms`.

    >>> heat = HeatCell(row=3, col=7, start_ms=5_000, end_ms=10_000, count=12, speed=31.5)
    >>> heat.key, heat.to_json()
    (b'3.7.5000', b'{"row":3,"col":7,"start":5000,"end":10000,"count":12,"speed":31.5}')
    """

    row: int
    col: int
    start_ms: int
    end_ms: int
    count: int
    speed: float | None
    """The mean in km/h; None where nothing was counted."""

    @property
    def key(self) -> bytes:
        return b"%d.%d.%d" % (self.row, self.col, self.start_ms)

    def as_dict(self) -> dict[str, Any]:
        return {
            "row": self.row,
            "col": self.col,
            "start": self.start_ms,
            "end": self.end_ms,
            "count": self.count,
            "speed": self.speed,
        }

    def to_json(self) -> bytes:
        return orjson.dumps(self.as_dict())

    @staticmethod
    def from_json(data: bytes | str) -> HeatCell:
        """InvalidMessageError for what is none."""
        found = _object(data)
        cell = HeatCell(
            _count(found, "row"),
            _count(found, "col"),
            _count(found, "start"),
            _count(found, "end"),
            _count(found, "count"),
            _maybe_speed(found),
        )
        if cell.end_ms <= cell.start_ms:
            raise InvalidMessageError("end: not after start")
        if (cell.speed is None) != (cell.count == 0):
            raise InvalidMessageError("speed: there is one where something was counted, and only there")
        return cell


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything that was sent is counted, late, a duplicate or malformed."""

    sent: int = 0
    counted: int = 0
    late: int = 0
    duplicate: int = 0
    malformed: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How many were malformed for which reason."""
    newest: int | None = None
    """The newest `ts` that was counted, in ms."""
    watermark: int | None = None
    """Windows that end here or before, in ms, are closed: what comes for them is late."""

    @property
    def key(self) -> bytes:
        return TOTALS_KEY

    def as_dict(self) -> dict[str, Any]:
        return {
            "sent": self.sent,
            "counted": self.counted,
            "late": self.late,
            "duplicate": self.duplicate,
            "malformed": self.malformed,
            "reasons": dict(self.reasons),
            "newest": self.newest,
            "watermark": self.watermark,
        }

    def to_json(self) -> bytes:
        return orjson.dumps(self.as_dict())

    @staticmethod
    def from_json(data: bytes | str) -> Totals:
        """InvalidMessageError for what are none."""
        found = _object(data)
        reasons = found.get("reasons")
        if not isinstance(reasons, dict):
            raise InvalidMessageError("reasons: not an object")
        totals = Totals(
            _count(found, "sent"),
            _count(found, "counted"),
            _count(found, "late"),
            _count(found, "duplicate"),
            _count(found, "malformed"),
            {reason: _count(reasons, reason) for reason in reasons},
            None if found.get("newest") is None else _count(found, "newest"),
            None if found.get("watermark") is None else _count(found, "watermark"),
        )
        if totals.counted + totals.late + totals.duplicate + totals.malformed != totals.sent:
            raise InvalidMessageError("sent: not the sum of what became of it")
        return totals


def parse_heat(key: bytes | None, value: bytes | None) -> HeatCell | Totals | None:
    """A record of the topic; None for one that only says that its key is gone (a tombstone).

    >>> parse_heat(b"totals", Totals(sent=2, counted=2).to_json()).counted
    2
    """
    if value is None:
        return None
    if key == TOTALS_KEY:
        return Totals.from_json(value)
    cell = HeatCell.from_json(value)
    if cell.key != key:
        raise InvalidMessageError(f"the key {key!r} is not that of the cell, {cell.key!r}")
    return cell


def _object(data: bytes | str) -> dict[str, Any]:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidMessageError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidMessageError("not an object")
    return found


def _count(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidMessageError(f"{name}: not a whole number from 0 on: {value!r}")
    return value


def _maybe_speed(found: Mapping[str, Any]) -> float | None:
    value = found.get("speed")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidMessageError(f"speed: neither a number from 0 on nor null: {value!r}")
    return float(value)
