"""The part of a map that somebody asks for: `W,S,E,N` in degrees. Pure."""

from __future__ import annotations

import re
from typing import Final

from penstock.traffic.grid import BBox, east_of

NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?")


def parse_box(text: str) -> BBox:
    """ValueError says what is wrong with it."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 4 or not all(NUMBER.fullmatch(part) for part in parts):
        raise ValueError("four numbers W,S,E,N are wanted")
    return BBox(*map(float, parts))


def is_in(box: BBox, lat: float, lon: float) -> bool:
    """All edges belong to it; it may lie across the date line."""
    return box.south <= lat <= box.north and east_of(box.west, lon) <= box.width
