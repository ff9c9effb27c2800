"""`df.write.format("penstock")` and `writeStream` against a real broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from penstock.spark.connector import install
from penstock.spark.errors import OptionError
from tests.support import topics
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def save(frame: DataFrame, bootstrap: str, **options: str) -> None:
    frame.write.format("penstock").mode("append").option("bootstrap", bootstrap).options(**options).save()


def load(spark: SparkSession, bootstrap: str, topic: str) -> list[Any]:
    frame = spark.read.format("penstock").option("bootstrap", bootstrap).option("subscribe", topic).load()
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def failure(frame: DataFrame, bootstrap: str, **options: str) -> str:
    with pytest.raises(PySparkException) as failed:
        save(frame, bootstrap, **options)
    return str(failed.value)


def test_there_and_back(spark: SparkSession, bootstrap: str, topic: str) -> None:
    topics.create_topic(bootstrap, topic, 2)
    headers = [("trace", b"\x00"), ("none", None)]
    rows = [
        (b"k", b"v", topic, 1, headers),
        (None, b"", topic, 1, None),
        (b"", None, topic, 0, []),
    ]
    columns = "key binary, value binary, topic string, partition int"
    columns += ", headers array<struct<key:string,value:binary>>"
    save(spark.createDataFrame(rows, columns).coalesce(1), bootstrap)
    deleted, full, empty = load(spark, bootstrap, topic)
    assert (full.key, full.value, full.partition) == (b"k", b"v", 1)
    assert [(header.key, header.value) for header in full.headers] == headers
    assert (empty.key, empty.value, empty.headers) == (None, b"", None)
    assert (deleted.key, deleted.value, deleted.partition, deleted.headers) == (b"", None, 0, None)


def test_strings_and_the_option_topic(spark: SparkSession, bootstrap: str, topic: str) -> None:
    topics.create_topic(bootstrap, topic, 3)
    frame = spark.range(5_000).selectExpr("string(id) AS value", "string(id % 5) AS key").repartition(2)
    save(frame, bootstrap, topic=topic)
    found = load(spark, bootstrap, topic)
    assert sorted(int(row.value) for row in found) == list(range(5_000))
    partitions = {(bytes(row.key), row.partition) for row in found}
    assert len(partitions) == 5, "a key in two partitions"


def test_copying_a_topic(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """What was read can be written as it is; the option says where to, not the column of where it was."""
    source, target = f"{topic}.from", f"{topic}.to"
    topics.fill(bootstrap, source, [b"1", b"2"], key=b"k", headers=[("h", b"1")])
    frame = spark.read.format("penstock").option("bootstrap", bootstrap).option("subscribe", source).load()
    save(frame, bootstrap, topic=target)
    assert [(row.value, row.key, len(row.headers)) for row in load(spark, bootstrap, target)] == [
        (b"1", b"k", 1),
        (b"2", b"k", 1),
    ]
    assert len(load(spark, bootstrap, source)) == 2


@pytest.mark.parametrize(
    ("columns", "options", "line"),
    [
        (["1 AS number"], {"topic": "t"}, "column 'value' is missing"),
        (["'v' AS value"], {}, "neither a column 'topic' nor the option 'topic'"),
        (["1 AS value"], {"topic": "t"}, "column 'value' is int and must be binary or string"),
        (
            ["'v' AS value", "1 AS keys"],
            {"topic": "t"},
            "column 'keys' cannot be written; there are value, key",
        ),
        (
            ["'v' AS value", "'x' AS partition"],
            {"topic": "t"},
            "column 'partition' is string and must be int",
        ),
        (
            ["'v' AS value", "map('a', 1) AS headers"],
            {"topic": "t"},
            "column 'headers' is map<string,int> and must",
        ),
        (["'v' AS value", "string(null) AS topic"], {}, "column 'topic' is null in a row"),
        (["'v' AS value", "99 AS partition"], {"topic": "sink-errors"}, "was not written: "),
        (["'v' AS value", "-1 AS partition"], {"topic": "sink-errors"}, "column 'partition' is -1 in a row"),
        (["repeat('v', 3000000) AS value"], {"topic": "sink-errors"}, "(MSG_SIZE_TOO_LARGE)"),
        (["'v' AS value"], {"topic": "t", "mode": "x"}, "option 'mode': is unknown; writing takes"),
    ],
)
def test_what_cannot_be_written(
    spark: SparkSession, bootstrap: str, columns: list[str], options: dict[str, str], line: str
) -> None:
    topics.ensure_topic(bootstrap, "sink-errors", [b""])
    frame = spark.range(1, numPartitions=1).selectExpr(*columns)
    assert line in failure(frame, bootstrap, **options)


def test_a_topic_is_not_overwritten(spark: SparkSession, bootstrap: str) -> None:
    writer = spark.range(1).selectExpr("'v' AS value").write.format("penstock")
    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        writer.mode("overwrite").option("bootstrap", bootstrap).option("topic", "t").save()


def test_a_broker_that_is_not_there(spark: SparkSession) -> None:
    address = f"127.0.0.1:{free_port()}"
    frame = spark.range(1).selectExpr("'v' AS value")
    line = failure(frame, address, topic="t", timeoutMs="1000")
    assert f" at {address}: the batch is not written: " in line
    line = failure(frame, address, topic="t", timeoutMs="1000", exactlyOnce="false")
    assert f"a message to topic 't' at {address} was not written: " in line


def test_a_batch_is_written_whole_or_not_at_all(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """The rows of the first task are staged, and then another fails."""
    topics.create_topic(bootstrap, topic)
    staging = tmp_path / "staging"

    def values(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch["id"][-1].as_py() == 99:
                deadline = time.monotonic() + 60
                while not list(staging.glob("*/*.arrow")) and time.monotonic() < deadline:
                    time.sleep(0.01)
                raise RuntimeError("the last row")
            yield pa.RecordBatch.from_arrays([batch["id"].cast(pa.string())], names=["value"])

    frame = spark.range(100, numPartitions=2).mapInArrow(values, "value string")
    assert "the last row" in failure(frame, bootstrap, topic=topic, staging=str(staging))
    assert load(spark, bootstrap, topic) == []
    whole = spark.range(50, numPartitions=2).selectExpr("string(id) AS value")
    save(whole, bootstrap, topic=topic, staging=str(staging))
    assert [int(row.value) for row in load(spark, bootstrap, topic)] == list(range(50))
    assert list(staging.iterdir()) == []
    assert [group for group in topics.group_ids(bootstrap) if group.startswith("penstock.sink")] == []


def copied(spark: SparkSession, bootstrap: str, source: str, target: str, **options: str) -> StreamingQuery:
    """A stream of doubled numbers, in micro batches of 40, until all are there."""
    stream = (
        spark.readStream.format("penstock")
        .option("bootstrap", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "40")
        .load()
        .selectExpr("string(int(string(value)) * 2) AS value")
    )
    query = (
        stream.writeStream.format("penstock")
        .option("bootstrap", bootstrap)
        .option("topic", target)
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    return query


def test_a_stream_from_topic_to_topic(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Started again when Spark has forgotten that the last batch is done, it writes nothing twice."""
    source, target = f"{topic}.from", f"{topic}.to"
    topics.fill(bootstrap, source, [b"%d" % number for number in range(100)])
    checkpoint = tmp_path / "checkpoint"
    query = copied(spark, bootstrap, source, target, checkpointLocation=str(checkpoint))
    expected = [2 * number for number in range(100)]
    assert [int(row.value) for row in load(spark, bootstrap, target)] == expected
    for name in ("2", ".2.crc"):
        (checkpoint / "commits" / name).unlink()
    copied(spark, bootstrap, source, target, checkpointLocation=str(checkpoint))
    assert (checkpoint / "commits" / "2").exists()
    assert [int(row.value) for row in load(spark, bootstrap, target)] == expected
    assert topics.committed(bootstrap, f"penstock.sink.{query.id}", (target, 0)) == [3]


def test_a_stream_that_is_at_least_once(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    source, target = f"{topic}.from", f"{topic}.to"
    topics.fill(bootstrap, source, [b"1", b"2"])
    checkpoint = {"checkpointLocation": str(tmp_path / "checkpoint")}
    copied(spark, bootstrap, source, target, exactlyOnce="false", **checkpoint)
    assert [int(row.value) for row in load(spark, bootstrap, target)] == [2, 4]


def test_a_stream_that_has_nowhere_to_stage(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """A checkpoint that is set for the session is not told to the sink."""
    topics.fill(bootstrap, topic, [b"1"])
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        with pytest.raises(PySparkException, match="option 'staging': is missing"):
            copied(spark, bootstrap, topic, topic)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_the_jvm_connector_is_asked_for_and_not_there(spark: SparkSession, bootstrap: str) -> None:
    install()
    options = {"bootstrap": bootstrap, "subscribe": "a", "connector": "Kafka"}
    for reader in (spark.read, spark.readStream):
        with pytest.raises(OptionError, match="spark-sql-kafka-0-10"):
            reader.format("penstock").options(**options).load()
    with pytest.raises(OptionError, match=r"session\(config="):
        spark.read.load(format="penstock", **options)
    options = {"bootstrap": bootstrap, "topic": "a", "connector": "kafka"}
    frame = spark.range(1).selectExpr("'v' AS value")
    with pytest.raises(OptionError, match="writes at least once"):
        frame.write.format("penstock").options(**options, exactlyOnce="true").save()
    with pytest.raises(OptionError, match="class path"):
        frame.write.format("penstock").options(**options).save()
    stream = spark.readStream.format("rate").load().selectExpr("string(value) AS value")
    with pytest.raises(OptionError, match="class path"):
        stream.writeStream.format("penstock").options(**options).start()
