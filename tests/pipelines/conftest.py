"""One Spark session for all tests of this folder: starting a JVM costs seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from penstock.spark import session

    spark = session("local[2]", config={"spark.driver.memory": "1g"})
    yield spark
    spark.stop()
