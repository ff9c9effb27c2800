"""Numbers as people write them. Java and Arrow would also take `0x1p3`, `1d`, `inf` or `NaN`."""

from __future__ import annotations

import math
import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_UNSIGNED: Final = re.compile(r" *\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *", re.ASCII)
_SIGNED: Final = re.compile(r" *[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *", re.ASCII)


def maybe_number(text: str | None, *, signed: bool = False) -> float | None:
    """A finite number, without a sign unless it may have one; None if it is something else."""
    if text is None or not (_SIGNED if signed else _UNSIGNED).fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def numbers(texts: pa.Array) -> pa.Array:
    """The same for a column, with nulls for None."""
    try:
        found = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:  # something among them that Arrow does not take; we may
        return pa.array([maybe_number(text) for text in texts.to_pylist()], pa.float64())
    # What Arrow takes and we do not: a minus, also that of -0, and words.
    wrong = pc.or_(pc.starts_with(texts, "-"), pc.invert(pc.is_finite(found)))
    if pc.any(wrong).as_py():
        found = pc.if_else(wrong, pa.scalar(None, pa.float64()), found)
    return found
