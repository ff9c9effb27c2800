from __future__ import annotations

import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.arrow import HEADERS_TYPE, SCHEMA, binary_array, record_batch


@given(st.lists(st.none() | st.binary(max_size=20), max_size=50))
def test_binary_columns_are_what_arrow_itself_makes(values: list[bytes | None]) -> None:
    built = binary_array(values)
    built.validate(full=True)
    assert built.equals(pa.array(values, pa.binary()))
    assert built.null_count == values.count(None)


def message(offset: int, headers: list[tuple[str, bytes | None]] | None = None) -> Message:
    return Message(
        topic="t",
        partition=3,
        offset=offset,
        key=b"k" if offset % 2 else None,
        value=b"v%d" % offset,
        headers=headers,
        timestamp=(TIMESTAMP_CREATE_TIME, 1_700_000_000_123),
    )


def test_a_batch_has_the_columns_of_sparks_kafka_source() -> None:
    batch = record_batch(
        [message(7, [("h", b"1"), ("h", None)]), message(9), message(10)], SCHEMA, headers=True
    )
    batch.validate(full=True)
    rows = batch.to_pylist()
    assert [row["offset"] for row in rows] == [7, 9, 10]
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rows[2] | {"timestamp": None} == {
        "key": None, "value": b"v10", "topic": "t", "partition": 3, "offset": 10,
        "timestamp": None, "timestampType": 0, "headers": None,
    }  # fmt: skip
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1_700_000_000_123_000] * 3


def test_only_the_columns_that_were_asked_for() -> None:
    schema = pa.schema([SCHEMA.field("offset"), SCHEMA.field("value")])
    batch = record_batch([message(7)], schema, headers=True)
    assert batch.to_pylist() == [{"offset": 7, "value": b"v7"}]


def test_headers_can_be_left_out() -> None:
    batch = record_batch([message(7, [("h", b"1")])], pa.schema([("headers", HEADERS_TYPE)]), headers=False)
    assert batch.to_pylist() == [{"headers": None}]
