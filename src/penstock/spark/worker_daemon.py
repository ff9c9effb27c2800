"""The process that Spark's Python workers are forked from, for jobs whose workers know Arrow and not pandas.

Spark starts it with the module of the workers as its argument (`spark.python.daemon.module`). What is
imported here is imported once and not again by each worker.

Arrow imports pandas, where it is installed, to find out whether what it is given comes from there: half of a
worker's start. Told once that there is none, it asks no more until something is converted to pandas: that
imports it after all. A worker that makes columns from pandas, and was given none before, would not be
understood. So this is not for sessions in which others run functions of their own.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Final

MODULE: Final = __name__ if __name__ != "__main__" else "penstock.spark.worker_daemon"


class _NoPandas:
    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def import_arrow_alone() -> None:
    """Arrow and what is used of it, without pandas."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.fs

        pa.array([None])
    finally:
        sys.meta_path.remove(finder)


if __name__ == "__main__":
    import_arrow_alone()
    importlib.import_module(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    from pyspark import daemon

    daemon.manager()
