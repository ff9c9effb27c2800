"""Spark's settings for streams of many small batches, beside brokers and producers on the same machine."""

from __future__ import annotations

from typing import Final

from penstock.spark.defaults import BRIEF, defaults

JAVA_OPTIONS: Final = (
    # Arrow checks its bounds at every single value; columns come from our own workers.
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
CHECKPOINT_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
LOCAL_FILES: Final = "org.apache.hadoop.fs.RawLocalFileSystem"


def small_batches(master: str | None) -> dict[str, str]:
    java = defaults(master)["spark.driver.extraJavaOptions"]
    return {
        "spark.driver.extraJavaOptions": f"{java} {BRIEF} {JAVA_OPTIONS}",
        "spark.sql.adaptive.enabled": "false",  # there is nothing to adapt to
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Hadoop's other way to local files starts a process for each link it looks at: ten in each batch.
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES,
        "spark.hadoop.fs.file.impl": LOCAL_FILES,
        "spark.sql.streaming.minBatchesToRetain": "10",
    }
