"""A stream into files and one into a topic, in a process that a test can kill: BOOTSTRAP TOPIC COPY FOLDER.

Runs for ever and says `running` when its queries are started.
"""

from __future__ import annotations

import sys

from penstock.spark import session
from penstock.spark.files import exactly_once_files

MESSAGES_PER_BATCH = 150


def main(bootstrap: str, topic: str, copy: str, folder: str) -> None:
    spark = session("local[2]", config={"spark.driver.memory": "512m"})
    stream = (
        spark.readStream.format("penstock")
        .option("bootstrap", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(MESSAGES_PER_BATCH))
        .load()
    )
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
    print("running", flush=True)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
