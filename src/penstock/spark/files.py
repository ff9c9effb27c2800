"""A stream into files, each record exactly once.

Spark runs a micro batch again after a crash, with the same id and, from this source, with the same records.
So each batch gets a folder named by its id, written aside and then put in its place: a batch that is repeated
replaces itself, and a batch that was interrupted is not seen at all.

    query = (stream.writeStream.foreachBatch(exactly_once_files("out/orders"))
             .option("checkpointLocation", "out/orders-checkpoint").start())
    spark.read.parquet("out/orders")           # has the column `batch` besides the stream's own

The folder belongs to the checkpoint: with a new checkpoint batches are counted from 0 again, so give it a new
folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.spark.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

ASIDE: Final = "_aside"
"""Spark and Hadoop do not read folders that begin with an underscore."""


def exactly_once_files(path: str, format: str = "parquet") -> Callable[[DataFrame, int], None]:  # noqa: A002
    """A function for `foreachBatch`; `path` is anything that Spark can write to."""

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        final, aside = f"{path}/batch={batch_id}", f"{path}/{ASIDE}/batch={batch_id}"
        batch.write.format(format).mode("overwrite").save(aside)
        _replace(batch, aside, final)

    return write_batch


def _replace(frame: DataFrame, aside: str, final: str) -> None:
    """Renames a folder over another. Between the two steps the batch is missing, never there twice."""
    spark = frame.sparkSession
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    source, target = (getattr(jvm, "org.apache.hadoop.fs.Path")(name) for name in (aside, final))
    files = target.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    files.delete(target, True)
    if not files.rename(source, target):
        raise SourceError(f"cannot rename {aside} to {final}")
