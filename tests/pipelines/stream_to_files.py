"""A stream into files and one into a topic, in a process that a test can kill: BOOTSTRAP TOPIC COPY FOLDER.

Runs for ever and says `running` when its queries are started.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from penstock.spark import session
from penstock.spark.files import exactly_once_files
from penstock.spark.worker_daemon import MODULE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGES_PER_BATCH = 150


def main(bootstrap: str, topic: str, copy: str, folder: str) -> None:
    spark = session("local[2]", config={"spark.driver.memory": "512m", "spark.python.daemon.module": MODULE})
    stream = (
        spark.readStream.format("penstock")
        .option("bootstrap", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(MESSAGES_PER_BATCH))
        .load()
    )
    while True:
        start(stream, bootstrap, copy, folder)
        print("running", flush=True)
        try:
            spark.streams.awaitAnyTermination()
        except StreamingQueryException as error:
            # Spark gives a Python worker ten seconds to start, however busy the machine is.
            if "failed to connect back" not in str(error):
                raise
            for query in spark.streams.active:
                query.stop()
            spark.streams.resetTerminated()


def start(stream: DataFrame, bootstrap: str, copy: str, folder: str) -> None:
    (
        stream.selectExpr("partition", "offset", "string(value) AS value")
        .writeStream.foreachBatch(exactly_once_files(f"{folder}/out"))
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )
    (
        stream.writeStream.format("penstock")
        .option("bootstrap", bootstrap)
        .option("topic", copy)
        .option("checkpointLocation", f"{folder}/copy-checkpoint")
        .start()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
