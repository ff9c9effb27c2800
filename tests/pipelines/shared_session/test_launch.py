"""These tests' session is started without Spark's scripts: what they would have done is compared here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from penstock.spark.java import VECTOR_OPTION
from penstock.spark.launch import MODULE_OPTIONS
from tests.support.java import ARCHIVE_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_java_gets_the_options_that_sparks_launcher_would_give_it(spark: SparkSession) -> None:
    launcher = spark.sparkContext._jvm.org.apache.spark.launcher.JavaModuleOptions  # type: ignore[union-attr]
    assert set(MODULE_OPTIONS) == set(launcher.defaultModuleOptions().split()) - {VECTOR_OPTION}


def test_java_is_a_child_of_this_process_and_takes_its_classes_from_the_archive(spark: SparkSession) -> None:
    java = type(spark.sparkContext)._gateway.proc  # type: ignore[union-attr]
    line = Path(f"/proc/{java.pid}/cmdline").read_text().split("\0")
    archives = [word.partition("=")[2] for word in line if word.startswith("-XX:SharedArchiveFile=")]
    assert bool(archives) is bool(ARCHIVE_OPTIONS), "there are machines on which none can be made"
    mapped = Path(f"/proc/{java.pid}/maps").read_text()
    # A Java that came without an archive of its own classes has two.
    assert all(archive in mapped for both in archives for archive in both.split(":"))


def test_python_workers_import_the_package_that_is_installed_and_compiled(spark: SparkSession) -> None:
    def where(_: Any) -> Iterator[str]:
        import pyspark

        yield pyspark.__file__

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect() == [pyspark.__file__]
