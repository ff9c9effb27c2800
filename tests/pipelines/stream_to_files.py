"""A stream into files in a process of its own, that a test can kill: BOOTSTRAP TOPIC FOLDER.

Runs for ever and says `running` when its query is started.
"""

from __future__ import annotations

import sys

from penstock.spark import session
from penstock.spark.files import exactly_once_files

MESSAGES_PER_BATCH = 150


def main(bootstrap: str, topic: str, folder: str) -> None:
    spark = session("local[2]", config={"spark.driver.memory": "512m"})
    stream = (
        spark.readStream.format("penstock")
        .option("bootstrap", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(MESSAGES_PER_BATCH))
        .load()
    )
    query = (
        stream.selectExpr("partition", "offset", "string(value) AS value")
        .writeStream.foreachBatch(exactly_once_files(f"{folder}/out"))
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )
    print("running", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
