"""`spark.readStream.format("penstock")` against a real broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException

from penstock.spark.files import exactly_once_files
from tests.support import topics

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.broker import BrokerProcess

QUERY_S_MAX = 60


@dataclass
class Stream:
    """A query that reads what is there and ends; started again, it goes on from its checkpoint."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    options: dict[str, str]
    batches: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    def start(self) -> StreamingQuery:
        reader = self.spark.readStream.format("penstock").option("bootstrap", self.bootstrap)
        stream = reader.options(**({"startingOffsets": "earliest"} | self.options)).load()
        writer = stream.writeStream.foreachBatch(self._collect).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.folder)).start()

    def run(self) -> list[bytes]:
        """The values that came in this run, by partition."""
        self.batches = {}
        query = self.start()
        assert query.awaitTermination(QUERY_S_MAX), "AvailableNow does not end"
        return [value for _, value in sorted(row for batch in self.batches.values() for row in batch)]

    def _collect(self, batch: DataFrame, batch_id: int) -> None:
        rows = sorted(batch.collect(), key=lambda row: (row.partition, row.offset))
        self.batches[batch_id] = [(row.partition, bytes(row.value)) for row in rows]


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%05d" % number for number in range(first, first + count)]


def test_limit_checkpoint_new_partitions_and_group(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    topics.create_topic(bootstrap, topic, 2)
    topics.fill(bootstrap, topic, numbered(90), partition=0)
    topics.fill(bootstrap, topic, numbered(30, 1_000), partition=1)
    options = {"subscribe": topic, "maxOffsetsPerTrigger": "40", "group": f"{topic}-group"}
    stream = Stream(spark, bootstrap, tmp_path / "checkpoint", options)
    assert stream.run() == numbered(90) + numbered(30, 1_000)
    sizes = [len(batch) for batch in stream.batches.values()]
    assert sizes == [40, 40, 40]
    assert sum(partition == 1 for partition, _ in stream.batches[0]) == 10, "not in proportion to the lag"

    topics.add_partitions(bootstrap, topic, 3)
    topics.fill(bootstrap, topic, numbered(5, 2_000), partition=2)
    topics.fill(bootstrap, topic, numbered(5, 90), partition=0)
    assert stream.run() == numbered(5, 90) + numbered(5, 2_000)
    assert stream.run() == []
    there = [(topic, partition) for partition in range(3)]
    assert topics.committed(bootstrap, f"{topic}-group", *there) == [95, 30, 5]


def test_new_topics_of_a_pattern(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    stream = Stream(spark, bootstrap, tmp_path / "checkpoint", {"subscribePattern": rf"{topic}\.r\d"})
    assert stream.run() == []
    topics.fill(bootstrap, f"{topic}.r1", numbered(3))
    topics.fill(bootstrap, f"{topic}.other", numbered(3))
    assert stream.run() == numbered(3)


def test_offsets_that_are_gone_and_a_topic_that_is_another(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    topics.fill(bootstrap, topic, numbered(10))
    stream = Stream(spark, bootstrap, tmp_path / "checkpoint", {"subscribe": topic})
    assert stream.run() == numbered(10)
    topics.fill(bootstrap, topic, numbered(20, 10))
    topics.delete_records(bootstrap, topic, 25)
    with pytest.raises(
        PySparkException, match=f"{topic}-0: offset 10 was asked for and is gone, the earliest is 25"
    ):
        stream.run()
    stream.options["failOnDataLoss"] = "false"
    assert stream.run() == numbered(5, 25)

    topics.delete_topic(bootstrap, topic)
    del stream.options["failOnDataLoss"]
    with pytest.raises(PySparkException, match=f"partition {topic}-0 is gone, it was read up to offset 30"):
        stream.run()
    topics.fill(bootstrap, topic, numbered(4, 100))
    with pytest.raises(
        PySparkException, match=f"partition {topic}-0 was read up to offset 30 and now ends at 4"
    ):
        stream.run()
    stream.options["failOnDataLoss"] = "false"
    assert stream.run() == numbered(4, 100)


def test_a_stream_goes_on_when_the_broker_comes_back(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    topics.fill(broker.bootstrap, "a", numbered(10))
    stream = Stream(spark, broker.bootstrap, tmp_path / "checkpoint", {"subscribe": "a", "group": "g"})
    assert stream.run() == numbered(10)
    topics.fill(broker.bootstrap, "a", numbered(10, 10))
    stream.batches = {}
    broker.terminate()
    query = stream.start()
    broker.start()
    assert query.awaitTermination(QUERY_S_MAX)
    assert [value for batch in stream.batches.values() for _, value in batch] == numbered(10, 10)


def test_files_of_a_repeated_batch_replace_themselves(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write = exactly_once_files(str(out))
    write(spark.range(10, numPartitions=1), 0)
    write(spark.range(10, 20), 1)
    write(spark.range(10, 20), 1)
    write(spark.range(0), 2)
    found = parquet.read_table(str(out), columns=["batch", "id"]).to_pylist()
    assert sorted((row["batch"], row["id"]) for row in found) == [
        (number // 10, number) for number in range(20)
    ]
    assert sorted(path.name for path in out.iterdir()) == ["_aside", "batch=0", "batch=1", "batch=2"]


def test_a_stream_adds_nothing_to_what_tasks_of_other_streams_are_made_of(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Spark would, to a map that it may be writing into these tasks, which then could not be read."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    variables = manager.lookupDataSource("penstock").dataSourceCls().envVars()
    before = set(variables)
    topics.create_topic(bootstrap, topic, 1)
    assert Stream(spark, bootstrap, tmp_path, {"subscribe": topic}).run() == []
    assert variables["SPARK_PYTHON_RUNTIME"] != "", "the stream has changed it"
    assert set(variables) == before
