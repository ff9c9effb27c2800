"""Messages of librdkafka as Arrow record batches.

This is the inner loop of a scan. `pyarrow.array` looks at every Python value and costs about 2 µs each, more
than all the rest; the standard library builds the same memory in one call per column: values joined, lengths
accumulated, numbers in an `array`. Arrow then only wraps it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)

Column = Callable[[Sequence[Message]], pa.Array]


def record_batch(messages: Sequence[Message], schema: pa.Schema, *, headers: bool) -> pa.RecordBatch:
    """The columns of `schema`, which are some of SCHEMA's, of messages of one partition without errors."""
    arrays = [
        pa.nulls(len(messages), HEADERS_TYPE)
        if name == "headers" and not headers
        else _COLUMNS[name](messages)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def binary_array(values: Sequence[bytes | None]) -> pa.Array:
    missing = values.count(None)
    if missing == len(values):
        return pa.nulls(len(values), pa.binary())
    present = [value or b"" for value in values] if missing else values
    validity = _bitmap(bytes(value is not None for value in values)) if missing else None
    ends = array("i", accumulate(map(len, present), initial=0))  # type: ignore[arg-type]  # no None is left
    data = b"".join(present)  # type: ignore[arg-type]  # nor here
    return pa.Array.from_buffers(
        pa.binary(), len(values), [validity, pa.py_buffer(ends), pa.py_buffer(data)], null_count=missing
    )


def _bitmap(flags: bytes) -> pa.Buffer:
    """One bit for each byte that is 0 or 1."""
    whole = pa.Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(flags)])
    return whole.cast(pa.bool_()).buffers()[1]


def _numbers(code: str, kind: pa.DataType, values: Sequence[int]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(code, values))])


def _key(messages: Sequence[Message]) -> pa.Array:
    return binary_array(list(map(Message.key, messages)))


def _value(messages: Sequence[Message]) -> pa.Array:
    return binary_array(list(map(Message.value, messages)))


def _topic(messages: Sequence[Message]) -> pa.Array:
    return pa.repeat(pa.scalar(messages[0].topic(), pa.string()), len(messages))


def _partition(messages: Sequence[Message]) -> pa.Array:
    return pa.repeat(pa.scalar(messages[0].partition(), pa.int32()), len(messages))


def _offset(messages: Sequence[Message]) -> pa.Array:
    return _numbers("q", pa.int64(), [message.offset() or 0 for message in messages])


def _timestamp(messages: Sequence[Message]) -> pa.Array:
    millis = [timestamp for _, timestamp in map(Message.timestamp, messages)]
    return _numbers("q", pa.timestamp("ms", "UTC"), millis).cast(pa.timestamp("us", "UTC"))


def _timestamp_type(messages: Sequence[Message]) -> pa.Array:
    # confluent-kafka counts from 0 for "none", Kafka and Spark from -1.
    return _numbers("i", pa.int32(), [kind - 1 for kind, _ in map(Message.timestamp, messages)])


def _headers(messages: Sequence[Message]) -> pa.Array:
    """Null where a message has none, as Spark's Kafka source does."""
    headers: list[Any] = list(map(Message.headers, messages))
    if not any(headers):
        return pa.nulls(len(headers), HEADERS_TYPE)
    return pa.array(
        [[{"key": key, "value": value} for key, value in found] if found else None for found in headers],
        HEADERS_TYPE,
    )


_COLUMNS: Final[dict[str, Column]] = {
    "key": _key,
    "value": _value,
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
}
