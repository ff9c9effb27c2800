"""`spark.read.format("penstock")` against a real broker."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException

from tests.support import topics
from tests.support.broker import BrokerProcess
from tests.support.ports import free_port
from tests.support.raw import RawClient, make_batch, poison_batch
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return spark.read.format("penstock").option("bootstrap", bootstrap).options(**options).load()


def values(frame: DataFrame) -> list[bytes | None]:
    """In the order of the log. Spark would read everything twice to sort it."""
    rows = sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))
    return [row.value if row.value is None else bytes(row.value) for row in rows]


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def failure(frame: DataFrame) -> str:
    with pytest.raises(PySparkException) as failed:
        frame.collect()
    return str(failed.value)


def test_all_columns(spark: SparkSession, bootstrap: str, topic: str) -> None:
    topics.create_topic(bootstrap, topic, 2)
    headers = [("trace", b"\x00\xff"), ("trace", None)]
    topics.fill_all(
        bootstrap,
        topic,
        [
            {"value": b"v", "key": b"k", "partition": 1, "timestamp": 1_700_000_000_123, "headers": headers},
            {"value": None, "key": b"", "partition": 1, "timestamp": 1_700_000_000_124},
            {"value": b"", "partition": 0, "timestamp": 1_700_000_000_125},
        ],
    )
    frame = load(spark, bootstrap, subscribe=topic)
    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    empty, full, deleted = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert (full.key, full.value, full.topic, full.partition, full.offset) == (b"k", b"v", topic, 1, 0)
    assert [(header.key, header.value) for header in full.headers] == headers
    assert frame.filter("partition = 1 AND offset = 0").selectExpr("unix_millis(timestamp)").head()[0] == (
        1_700_000_000_123
    )
    assert isinstance(full.timestamp, datetime)
    assert full.timestampType == 0
    assert (deleted.key, deleted.value, deleted.headers, deleted.offset) == (b"", None, None, 1)
    assert (empty.key, empty.value, empty.partition) == (None, b"", 0)


def test_many_messages_of_all_sizes(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """Sizes around the bounds of a batch: the number of rows in one must follow them."""
    topics.create_topic(bootstrap, topic, 3)
    sizes = [*([3] * 30_000), *([900_000] * 8), *([10] * 5_000)]
    topics.fill_all(
        bootstrap,
        topic,
        (
            {"value": b"%7d" % number + b"x" * size, "partition": number % 3}
            for number, size in enumerate(sizes)
        ),
    )
    frame = load(spark, bootstrap, subscribe=topic)
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.selectExpr(
        "int(string(substring(value, 1, 7))) AS number", "length(value) - 7 AS size", "partition"
    ).collect()
    assert len(rows) == len(sizes)
    found = {row.number: (row.size, row.partition) for row in rows}
    assert found == {number: (size, number % 3) for number, size in enumerate(sizes)}


def test_only_some_columns(spark: SparkSession, bootstrap: str, topic: str) -> None:
    topics.fill(bootstrap, topic, numbered(3))
    reader = spark.read.format("penstock").option("bootstrap", bootstrap).option("subscribe", topic)
    rows = reader.schema("offset long, value binary").load().collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert "column 'value' is binary, not string" in failure(reader.schema("value string").load())
    assert "column 'body' cannot be read" in failure(reader.schema("body binary").load())


def test_several_topics_by_name_pattern_and_partition(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    one, two = f"{topic}.r1", f"{topic}.r22"
    topics.create_topic(bootstrap, one, 2)
    topics.fill(bootstrap, one, [b"a"], partition=0)
    topics.fill(bootstrap, one, [b"b"], partition=1)
    topics.fill(bootstrap, two, [b"c"])
    topics.fill(bootstrap, f"{topic}.r1x", [b"other"])
    assert values(load(spark, bootstrap, subscribe=f"{two},{one}")) == [b"a", b"b", b"c"]
    assert values(load(spark, bootstrap, subscribePattern=topic + r"\.r\d+")) == [b"a", b"b", b"c"]
    assert values(load(spark, bootstrap, assign=json.dumps({one: [1], two: [0]}))) == [b"b", b"c"]
    assert values(load(spark, bootstrap, subscribePattern=f"{topic} nowhere")) == []


def test_offsets_by_partition(spark: SparkSession, bootstrap: str, topic: str) -> None:
    topics.create_topic(bootstrap, topic, 2)
    for partition in (0, 1):
        topics.fill(bootstrap, topic, numbered(10, partition * 100), partition=partition)

    def between(start: list[int], end: list[int]) -> list[bytes | None]:
        starting, ending = (
            json.dumps({topic: {str(partition): offset for partition, offset in enumerate(given)}})
            for given in (start, end)
        )
        return values(load(spark, bootstrap, subscribe=topic, startingOffsets=starting, endingOffsets=ending))

    assert between([8, 9], [-1, -1]) == [b"8", b"9", b"109"]
    assert between([-2, 3], [2, 4]) == [b"0", b"1", b"103"]
    assert between([5, 5], [5, 5]) == []


def test_starting_at_a_time(spark: SparkSession, bootstrap: str, topic: str) -> None:
    topics.create_topic(bootstrap, topic, 2)
    now = 1_750_000_000_000
    topics.fill_all(
        bootstrap,
        topic,
        [
            {"value": b"%d" % number, "partition": 0, "timestamp": now + number * 1_000}
            for number in range(10)
        ],
    )
    topics.fill(bootstrap, topic, [b"old"], partition=1, timestamp=now)
    assert values(load(spark, bootstrap, subscribe=topic, startingTimestamp=str(now + 6_500))) == [
        b"7",
        b"8",
        b"9",
    ]


def test_poison_is_passed_over(spark: SparkSession, bootstrap: str, topic: str) -> None:
    with RawClient(bootstrap) as raw:
        raw.create_topic(topic)
        for batch in (make_batch([b"before"]), poison_batch(), make_batch([b"after"])):
            raw.produce(topic, batch)
    assert values(load(spark, bootstrap, subscribe=topic)) == [b"before", b"after"]


def test_an_empty_topic(spark: SparkSession, bootstrap: str, topic: str) -> None:
    topics.create_topic(bootstrap, topic, 3)
    assert load(spark, bootstrap, subscribe=topic).count() == 0


def test_offsets_that_are_gone(spark: SparkSession, bootstrap: str, topic: str) -> None:
    topics.fill(bootstrap, topic, numbered(10))
    topics.delete_records(bootstrap, topic, 6)
    start = json.dumps({topic: {"0": 2}})
    assert values(load(spark, bootstrap, subscribe=topic)) == numbered(4, 6)
    line = failure(load(spark, bootstrap, subscribe=topic, startingOffsets=start))
    assert f"partition {topic}-0: offset 2 was asked for and is gone, the earliest is 6" in line
    kept_options = {"startingOffsets": start, "failOnDataLoss": "false"}
    assert values(load(spark, bootstrap, subscribe=topic, **kept_options)) == numbered(4, 6)
    end = json.dumps({topic: {"0": 5}})
    none = load(
        spark, bootstrap, subscribe=topic, startingOffsets=start, endingOffsets=end, failOnDataLoss="false"
    )
    assert values(none) == []


def test_a_compacted_topic(spark: SparkSession, tmp_path: Path) -> None:
    """Gaps everywhere, and at the end of a range too: the offsets of the range and no other."""
    settings = tmp_path / "node.toml"
    settings.write_text("compaction_check_ms = 100\n")
    with BrokerProcess(tmp_path, "--config", str(settings)) as broker:
        config = {"cleanup_policy": "compact", "segment_bytes": "100000", "min_cleanable_dirty_ratio": "0.01"}
        topics.create_topic(broker.bootstrap, "compacted", **config)
        for first in range(0, 2_000, 100):  # one batch after the other, or all would be one segment
            topics.fill_all(
                broker.bootstrap,
                "compacted",
                (
                    {"value": b"x" * 500, "key": b"%d" % (number if number % 50 == 0 else number % 7)}
                    for number in range(first, first + 100)
                ),
            )

        def offsets(start: int = 0, end: int = 2_000) -> list[int]:
            frame = load(
                spark,
                broker.bootstrap,
                subscribe="compacted",
                startingOffsets=json.dumps({"compacted": {"0": start}}),
                endingOffsets=json.dumps({"compacted": {"0": end}}),
            )
            return sorted(row.offset for row in frame.select("offset").collect())

        kept = list(range(50, 1_000, 50))  # the other keys were written again after offset 1,000
        wait_until(lambda: len(stored_before(broker, 1_000)) == len(kept), "compaction", timeout_s=60)
        assert offsets(end=1_000) == kept
        assert offsets()[-1] == 1_999
        assert offsets(end=75) == [50]
        assert offsets(51, 151) == [100, 150]
        assert offsets(51, 99) == []


def stored_before(broker: BrokerProcess, end: int) -> list[int]:
    """The offsets of the topic that are left, as a consumer finds them."""
    found: list[int] = []
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "log_level": 0}
    with closing(Consumer(settings | {"enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition("compacted", 0, 0)])
        while True:
            for message in consumer.consume(1_000, timeout=1.0):
                offset = message.offset()
                assert offset is not None
                if message.error() is not None or offset >= end:
                    return found
                found.append(offset)


STARTING, ENDING = "option 'startingOffsets'", "option 'endingOffsets'"


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("subscribe", "no-such-topic", "topic 'no-such-topic' does not exist at 127.0.0.1"),
        ("assign", '{"T": [0, 4]}', "option 'assign': topic 'T' has no partition 4"),
        (
            "startingOffsets",
            '{"T": {"0": 0, "1": 0}}',
            f"{STARTING}: partition T-1 is not among the partitions",
        ),
        ("startingOffsets", '{"T": {}}', f"{STARTING}: partition T-0 has no offset"),
        ("startingOffsets", '{"T": {"0": 9}}', f"{STARTING}: partition T-0 would start at 9 and end at 3"),
        ("endingOffsets", '{"T": {"0": 9}}', f"{ENDING}: partition T-0 ends at 3, before 9"),
        ("group", "g", "option 'group': is for streams"),
        ("kafka.no.such.setting", "5", "option 'kafka.no.such.setting': No such configuration property"),
    ],
)
def test_what_cannot_be_read(spark: SparkSession, bootstrap: str, option: str, value: str, line: str) -> None:
    topics.ensure_topic(bootstrap, "T", numbered(3))
    given = {option: value} if option in ("subscribe", "assign") else {"subscribe": "T", option: value}
    assert line in failure(load(spark, bootstrap, **given))


def test_a_wrong_option_fails_at_load(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="option 'subscibe': is unknown"):
        load(spark, "127.0.0.1:1", subscibe="a")


def test_a_broker_that_is_not_there(spark: SparkSession) -> None:
    address = f"127.0.0.1:{free_port()}"
    line = failure(load(spark, address, subscribe="a", timeoutMs="1500"))
    assert f"cannot list topics: no answer from {address} for 1.5 s" in line
