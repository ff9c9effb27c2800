"""Penstock in PySpark: a session that starts anywhere, and the data source `penstock`.

>>> from penstock.spark import session
>>> spark = session()                                                       # doctest: +SKIP
>>> spark.read.format("penstock").option("subscribe", "orders").load()      # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.java import SparkSetupError
    from penstock.spark.session_start import session

__all__ = ["SparkSetupError", "session"]

_MODULES = {"SparkSetupError": "penstock.spark.java", "session": "penstock.spark.session_start"}


def __getattr__(name: str) -> Any:
    """Imported when it is first used: Spark's workers import modules of this package, and need no session."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
