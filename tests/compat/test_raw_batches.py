"""What the broker takes into its log, and what it refuses."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from penstock.types import ErrorCode
from penstock.wire import compression
from penstock.wire.batch import CONTROL, CRC_START
from penstock.wire.records import Record, encode_batch
from tests.support.raw import (
    CLIENT_ID,
    FETCH,
    PRODUCE,
    RECENT_MS,
    ConnectionEndedError,
    RawClient,
    all_records,
    encode_request,
    make_batch,
    produce_body,
    read_all,
    split_batches,
)

RECORDS_COUNT = 57
LAST_OFFSET_DELTA = 23
MAGIC = 16
BATCH_LENGTH = 8


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    raw.create_topic(topic)
    return topic


def patched(batch: bytes, position: int, value: bytes) -> bytes:
    """The batch with other bytes at `position` and a valid CRC."""
    changed = bytearray(batch)
    changed[position : position + len(value)] = value
    changed[17:21] = struct.pack(">I", crc32c(bytes(changed[CRC_START:])))
    return bytes(changed)


def test_offsets_and_leader_epoch_are_assigned_and_nothing_else_changes(raw: RawClient, topic: str) -> None:
    batches = [make_batch([b"a", b"b", b"c"]), make_batch([b"d"]), make_batch([b"e", b"f"])]
    answers = [raw.produce(topic, batch) for batch in batches]
    assert [answer.base_offset for answer in answers] == [0, 3, 4]
    assert [answer.log_start_offset for answer in answers] == [0, 0, 0]
    stored = read_all(raw, topic)
    assert [header.base_offset for header, _ in stored] == [0, 3, 4]
    assert all(header.partition_leader_epoch >= 0 for header, _ in stored)
    assert [batch[16:] for _, batch in stored] == [batch[16:] for batch in batches]


def test_a_fetch_from_the_middle_of_a_batch_returns_the_whole_batch(raw: RawClient, topic: str) -> None:
    raw.produce(topic, make_batch([b"a", b"b", b"c"]))
    raw.produce(topic, make_batch([b"d", b"e"]))
    answer = raw.fetch(topic, 1)
    assert [header.base_offset for header, _ in split_batches(answer.records)] == [0, 3]
    answer = raw.fetch(topic, 4)
    assert [header.base_offset for header, _ in split_batches(answer.records)] == [3]
    assert [record.value for record in all_records(answer.records)] == [b"d", b"e"]


def refuse(raw: RawClient, topic: str, batch: bytes | None, *codes: ErrorCode) -> None:
    answer = raw.produce(topic, batch)
    assert answer.error_code in codes, answer
    assert answer.base_offset == -1
    assert raw.end_offset(topic) == 0
    # The connection goes on, and so does the partition.
    assert raw.produce(topic, make_batch([b"fine"])).error_code is ErrorCode.none
    assert raw.end_offset(topic) == 1


def test_a_bad_crc_is_refused(raw: RawClient, topic: str) -> None:
    batch = bytearray(make_batch([b"some value"]))
    batch[-3] ^= 0xFF
    refuse(raw, topic, bytes(batch), ErrorCode.corrupt_message)


def test_two_batches_for_one_partition_are_refused(raw: RawClient, topic: str) -> None:
    refuse(raw, topic, make_batch([b"a"]) + make_batch([b"b"]), ErrorCode.invalid_record)


def test_a_control_batch_is_refused(raw: RawClient, topic: str) -> None:
    producer_id, epoch = raw.init_producer_id()
    marker = Record(0, RECENT_MS, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")
    batch = encode_batch(
        [marker], attributes=CONTROL, producer_id=producer_id, producer_epoch=epoch, base_sequence=0
    )
    refuse(raw, topic, batch, ErrorCode.invalid_record)


@pytest.mark.parametrize("count", [0, 1, 3, -1, 2**31 - 1])
def test_a_wrong_record_count_is_refused(raw: RawClient, topic: str, count: int) -> None:
    batch = patched(make_batch([b"a", b"b"]), RECORDS_COUNT, struct.pack(">i", count))
    refuse(raw, topic, batch, ErrorCode.invalid_record)


@pytest.mark.parametrize("delta", [-1, 0, 2])
def test_a_wrong_last_offset_delta_is_refused(raw: RawClient, topic: str, delta: int) -> None:
    batch = patched(make_batch([b"a", b"b"]), LAST_OFFSET_DELTA, struct.pack(">i", delta))
    refuse(raw, topic, batch, ErrorCode.invalid_record)


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_another_record_format_is_refused(raw: RawClient, topic: str, magic: int) -> None:
    batch = patched(make_batch([b"a"]), MAGIC, struct.pack(">b", magic))
    refuse(
        raw,
        topic,
        batch,
        ErrorCode.invalid_record,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.corrupt_message,
    )


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_without_key_is_refused_by_a_compacted_topic(raw: RawClient, topic: str, codec: str) -> None:
    compacted = f"{topic}-compacted"
    raw.create_topic(compacted, configs={"cleanup.policy": "compact"})
    records = [Record(0, RECENT_MS, b"key", b"a"), Record(1, RECENT_MS, None, b"b")]
    answer = raw.produce(compacted, encode_batch(records, codec=compression.NAMES[codec]))
    assert answer.error_code is ErrorCode.invalid_record
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert raw.end_offset(compacted) == 0
    answer = raw.produce(compacted, encode_batch(records[:1], codec=compression.NAMES[codec]))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)


def test_a_batch_that_is_cut_off_is_refused(raw: RawClient, topic: str) -> None:
    batch = make_batch([b"a value that ends too early"])
    refuse(raw, topic, batch[:-5], ErrorCode.corrupt_message, ErrorCode.invalid_record)


def test_no_batch_at_all_is_refused(raw: RawClient, topic: str) -> None:
    refuse(raw, topic, b"", ErrorCode.corrupt_message, ErrorCode.invalid_record)


@pytest.mark.parametrize("codec", compression.NAMES.values(), ids=compression.NAMES)
def test_every_codec_is_carried_as_it_came(raw: RawClient, topic: str, codec: int) -> None:
    batch = make_batch([b"value " * 100] * 10, codec=codec)
    assert raw.produce(topic, batch).error_code is ErrorCode.none
    [(header, stored)] = read_all(raw, topic)
    assert header.codec == codec
    assert stored[16:] == batch[16:]


def test_an_unknown_topic_and_an_unknown_partition(raw: RawClient, topic: str) -> None:
    for name, partition in ((f"{topic}-unknown", 0), (topic, 1)):
        answer = raw.produce(name, make_batch([b"a"]), partition=partition)
        assert answer.error_code is ErrorCode.unknown_topic_or_partition


def test_wrong_acks_are_refused(raw: RawClient, topic: str) -> None:
    answer = raw.produce(topic, make_batch([b"a"]), acks=2)
    assert answer.error_code is ErrorCode.invalid_required_acks
    assert raw.end_offset(topic) == 0


@pytest.mark.parametrize("version", range(3, 10))
def test_every_served_produce_version(raw: RawClient, topic: str, version: int) -> None:
    answer = raw.produce(topic, make_batch([b"a"]), version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)


@pytest.mark.parametrize("version", range(4, 13))
def test_every_served_fetch_version(raw: RawClient, topic: str, version: int) -> None:
    raw.produce(topic, make_batch([b"a", b"b"]))
    answer = raw.request(FETCH, version, versioned_fetch(topic, version))
    partition = answer.responses[0].partitions[0]
    assert (partition.error_code, partition.high_watermark) == (ErrorCode.none, 2)
    assert [record.value for record in all_records(partition.records)] == [b"a", b"b"]


def versioned_fetch(topic: str, version: int) -> dict[str, object]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
    body = {"replica_id": -1, "min_bytes": 1, "max_bytes": 1_000_000}
    if version >= 7:
        body |= {"session_id": 0, "session_epoch": -1}
    if version >= 9:
        partition["current_leader_epoch"] = -1
    return {**body, "topics": [{"topic": topic, "partitions": [partition]}]}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_before_version_3_is_refused(
    raw: RawClient, bootstrap: str, topic: str, version: int
) -> None:
    """Advertised for the sake of older clients, never served: their record formats are not stored."""
    frame = bytearray(encode_request(PRODUCE, 3, 1, produce_body(topic, {0: make_batch([b"a"])})))
    frame[2:4] = struct.pack(">h", version)
    client_id_end = 10 + len(CLIENT_ID)
    del frame[client_id_end : client_id_end + 2]  # transactional_id, the news of version 3
    with RawClient(bootstrap) as old:
        old.send_frame(bytes(frame))
        try:
            answer = old.receive_frame()
        except (ConnectionEndedError, ConnectionResetError):
            pass
        else:
            # correlation id, count, topic, count, partition, error code
            error_code = 4 + 4 + 2 + len(topic) + 4 + 4
            assert struct.unpack_from(">h", answer, error_code) == (ErrorCode.unsupported_version.value,)
    assert raw.end_offset(topic) == 0


def test_messages_up_to_the_limit_and_not_over_it(raw: RawClient, topic: str) -> None:
    limited = f"{topic}-limited"
    raw.create_topic(limited, configs={"max.message.bytes": "10000"})
    empty = len(make_batch([bytes(9_000)])) - 9_000
    exact = make_batch([bytes(10_000 - empty)])
    assert len(exact) == 10_000
    assert raw.produce(limited, exact).error_code is ErrorCode.none
    over = raw.produce(limited, make_batch([bytes(10_001 - empty)]))
    assert over.error_code is ErrorCode.message_too_large
    assert raw.produce(limited, exact).base_offset == 1
    assert raw.end_offset(limited) == 2


def test_the_default_limit_is_that_of_kafka(raw: RawClient, topic: str) -> None:
    limit = 1_048_588
    empty = len(make_batch([bytes(1_000_000)])) - 1_000_000
    assert raw.produce(topic, make_batch([bytes(limit - empty)])).error_code is ErrorCode.none
    over = raw.produce(topic, make_batch([bytes(limit - empty + 1)]))
    assert over.error_code is ErrorCode.message_too_large


def test_the_limit_counts_compressed_bytes(raw: RawClient, topic: str) -> None:
    batch = make_batch([bytes(5_000_000)], codec=compression.ZSTD)
    assert raw.produce(topic, batch).error_code is ErrorCode.none


def test_a_large_message_and_its_way_back(raw: RawClient, topic: str) -> None:
    large = f"{topic}-large"
    raw.create_topic(large, configs={"max.message.bytes": "20000000"})
    value = bytes(range(256)) * 60_000
    assert raw.produce(large, make_batch([value])).error_code is ErrorCode.none
    # A first batch is returned even where it is larger than all that was asked for.
    answer = raw.fetch(large, 0, max_bytes=1_000, partition_max_bytes=1_000)
    assert [record.value for record in all_records(answer.records)] == [value]


def test_log_append_time_is_the_brokers(raw: RawClient, topic: str) -> None:
    stamped = f"{topic}-stamped"
    raw.create_topic(stamped, configs={"message.timestamp.type": "LogAppendTime"})
    batch = make_batch([b"a", b"b"], timestamp=RECENT_MS - 1_000_000, codec=compression.LZ4)
    answer = raw.produce(stamped, batch)
    assert answer.error_code is ErrorCode.none
    assert answer.log_append_time is not None
    [(header, stored)] = read_all(raw, stamped)
    assert header.is_log_append_time
    assert header.crc == crc32c(stored[CRC_START:])
    assert header.max_timestamp == round(answer.log_append_time.timestamp() * 1_000)
    assert {record.timestamp for record in all_records(stored)} == {header.max_timestamp}
    assert header.max_timestamp > RECENT_MS
