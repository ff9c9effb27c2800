from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from penstock.spark.worker_daemon import import_arrow_alone
import_arrow_alone()
import pyarrow as pa
pa.array(["a", None]); pa.scalar(1)
print("pandas" in sys.modules, "pyspark" in sys.modules)
import pandas
print(pa.table({"n": [1, 2]}).to_pandas()["n"].sum())
"""


def test_workers_have_arrow_without_pandas_and_pandas_when_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["False False", "3"]
