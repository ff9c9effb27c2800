"""One Spark session for all tests of this folder, which run in one process: starting a JVM costs seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.java import QUICK_START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from penstock.spark import session
    from penstock.spark.defaults import defaults
    from penstock.spark.worker_daemon import MODULE

    options = defaults("local[2]")["spark.driver.extraJavaOptions"]
    config = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{options} {QUICK_START}",
        # As in the applications: Python workers without pandas start in half the time.
        "spark.python.daemon.module": MODULE,
    }
    spark = session("local[2]", config=config)
    yield spark
    spark.stop()
