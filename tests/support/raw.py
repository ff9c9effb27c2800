"""A Kafka client without manners: any request, in any version, as often and as early as a test likes.

    with RawClient(bootstrap) as client:
        correlation_id = client.send(METADATA, 12, {"topics": None})   # does not wait
        client.receive(METADATA, 12)                                   # the next answer on the connection
        client.request(METADATA, 12, {"topics": None})                 # both

Request bodies are plain nested mappings with kio's field names; what is left out gets the protocol's default.
"""

from __future__ import annotations

import io
import socket
import struct
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from crc32c import crc32c
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from penstock.wire import compression
from penstock.wire.batch import CRC_START, HEADER_SIZE, LENGTH_PREFIX_SIZE, read_header
from penstock.wire.records import Record, decode_records, encode_batch
from penstock.wire.shapes import lower, names_in
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.wire.batch import BatchHeader

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS = 11, 12, 13, 14, 15
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = 18, 19, 20, 21
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_LOG_DIRS = 22, 23, 35

CLIENT_ID = b"raw"
RECENT_MS = int(time.time() * 1_000) - 3_600_000
"""An hour before the tests: old enough to be told from now, young enough for any retention."""
TIMEOUT_SECONDS = 15.0


class ConnectionEndedError(Exception):
    """The broker ended the connection."""


class RawClient:
    def __init__(self, bootstrap: str, *, timeout_s: float = TIMEOUT_SECONDS) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, body: Mapping[str, Any]) -> int:
        """Sends a request; the correlation id that its answer will carry."""
        self._correlation_id += 1
        self.send_frame(encode_request(api_key, version, self._correlation_id, body))
        return self._correlation_id

    def send_frame(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._receive(4))
        return self._receive(length)

    def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        """(correlation id, body) of the next answer, which must be of this API and version."""
        return decode_response(api_key, version, self.receive_frame())

    def request(self, api_key: int, version: int, body: Mapping[str, Any]) -> Any:
        sent = self.send(api_key, version, body)
        received, answer = self.receive(api_key, version)
        assert received == sent, f"answer {received} to request {sent}"
        return answer

    def is_silent(self, seconds: float) -> bool:
        """Whether nothing at all arrives within that time."""
        timeout_s = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(timeout_s)
        return False

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self.socket.recv(size - len(received))
            if not part:
                raise ConnectionEndedError(f"after {len(received)} of {size} bytes")
            received += part
        return bytes(received)

    # What most tests ask for, in a few words.

    def create_topic(
        self, topic: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        answer = self.request(
            CREATE_TOPICS,
            5,
            {
                "topics": [
                    {
                        "name": topic,
                        "num_partitions": partitions,
                        "replication_factor": 1,
                        "configs": [
                            {"name": name, "value": value} for name, value in (configs or {}).items()
                        ],
                    }
                ],
                "timeout": timedelta(seconds=10),
            },
        )
        assert answer.topics[0].error_code.name == "none", answer.topics[0]
        # Apache Kafka answers before its partitions have a leader.
        for partition in range(partitions):
            wait_until(
                lambda partition=partition: (
                    self.list_offset(topic, -1, partition=partition).error_code.name == "none"
                ),
                f"leader of {topic}-{partition}",
            )

    def send_produce(
        self, topic: str, batch: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> int:
        return self.send(PRODUCE, version, produce_body(topic, {partition: batch}, acks=acks))

    def receive_produced(self, *, version: int = 9) -> Any:
        """The answer for the one partition of a produce request."""
        _, answer = self.receive(PRODUCE, version)
        return answer.responses[0].partition_responses[0]

    def produce(
        self, topic: str, batch: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> Any:
        self.send_produce(topic, batch, partition=partition, acks=acks, version=version)
        return self.receive_produced(version=version)

    def fetch(self, topic: str, offset: int, **options: Any) -> Any:
        """The answer for one partition; options as those of `fetch_body`."""
        version = options.pop("version", 12)
        partition = options.pop("partition", 0)
        answer = self.request(FETCH, version, fetch_body(topic, {partition: offset}, **options))
        return answer.responses[0].partitions[0]

    def init_producer_id(self) -> tuple[int, int]:
        """A fresh (producer id, epoch)."""
        body = {
            "transactional_id": None,
            "transaction_timeout": timedelta(milliseconds=-1),
            "producer_id": -1,
            "producer_epoch": -1,
        }
        answer = self.request(INIT_PRODUCER_ID, 4, body)
        while answer.error_code.name == "coordinator_load_in_progress":
            answer = self.request(INIT_PRODUCER_ID, 4, body)
        assert answer.error_code.name == "none", answer
        return answer.producer_id, answer.producer_epoch

    def end_offset(self, topic: str, *, partition: int = 0) -> int:
        """The offset after the last record that consumers can see."""
        return self.list_offset(topic, -1, partition=partition).offset

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0, version: int = 7) -> Any:
        answer = self.request(
            LIST_OFFSETS,
            version,
            {
                "replica_id": -1,
                "topics": [
                    {
                        "name": topic,
                        "partitions": [
                            {
                                "partition_index": partition,
                                "current_leader_epoch": -1,
                                "timestamp": timestamp,
                            }
                        ],
                    }
                ],
            },
        )
        return answer.topics[0].partitions[0]


def encode_request(api_key: int, version: int, correlation_id: int, body: Mapping[str, Any]) -> bytes:
    request_type = load_request_schema(api_key, version)
    out = io.BytesIO()
    out.write(struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID)
    if request_type.__flexible__:
        out.write(b"\x00")
    entity_writer(request_type)(out, lower(body, request_type, names_in(request_type)))
    return out.getvalue()


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Any]:
    """Correlation id and body; the frame must hold nothing else."""
    response_type = load_response_schema(api_key, version)
    (correlation_id,) = struct.unpack_from(">i", frame)
    position = 4
    if response_type.__flexible__ and api_key != API_VERSIONS:
        assert frame[position] == 0, "tagged fields in a response header"
        position += 1
    body, size = entity_reader(response_type)(frame, position)
    assert position + size == len(frame), f"{len(frame) - position - size} bytes after the answer"
    return correlation_id, body


def produce_body(
    topic: str, batches: Mapping[int, bytes | None], *, acks: int = -1, timeout_ms: int = 10_000
) -> dict[str, Any]:
    return {
        "acks": acks,
        "timeout": timedelta(milliseconds=timeout_ms),
        "topic_data": [
            {
                "name": topic,
                "partition_data": [
                    {"index": partition, "records": batch} for partition, batch in batches.items()
                ],
            }
        ],
    }


def fetch_body(
    topic: str,
    offsets: Mapping[int, int],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 * 1024 * 1024,
    partition_max_bytes: int = 1024 * 1024,
) -> dict[str, Any]:
    return {
        "replica_id": -1,
        "max_wait": timedelta(milliseconds=max_wait_ms),
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": partition,
                        "current_leader_epoch": -1,
                        "fetch_offset": offset,
                        "log_start_offset": -1,
                        "partition_max_bytes": partition_max_bytes,
                    }
                    for partition, offset in offsets.items()
                ],
            }
        ],
    }


def make_batch(
    values: Iterable[bytes | None],
    *,
    codec: int = compression.NONE,
    timestamp: int = RECENT_MS,
    step_ms: int = 0,
    **options: int,
) -> bytes:
    """One batch of records without keys; options as those of `encode_batch`."""
    records = [Record(index, timestamp + index * step_ms, None, value) for index, value in enumerate(values)]
    return encode_batch(records, codec=codec, **options)


def resealed(batch: bytes, body: bytes) -> bytes:
    """The batch with another body and the checksum of that."""
    changed = bytearray(batch[:HEADER_SIZE] + body)
    struct.pack_into(">i", changed, 8, len(changed) - LENGTH_PREFIX_SIZE)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[CRC_START:]))
    return bytes(changed)


def poison_batch(body: bytes = b"\xff" * 37, *, codec: int = compression.NONE) -> bytes:
    """A batch with the right checksum, whose records are none."""
    return resealed(make_batch([b"x"], codec=codec), body)


POISON = {
    "no varint": poison_batch(),
    "a varint without an end": poison_batch(b"\x80\x80"),
    "zeros": poison_batch(bytes(30)),
    "text": poison_batch(b"not records at all, but some text"),
    "a record longer than its batch": poison_batch(b"\x7e\0\0\0\x01\x02x\0"),
    "a record of negative length": poison_batch(b"\x09\0\0\0\x01\x02x\0"),
    "a value longer than its record": poison_batch(b"\x0e\0\0\0\x01\x7ex\0"),
    "a key of negative length": poison_batch(b"\x0e\0\0\0\x11\x02x\0"),
    "a good record and a bad one": resealed(
        make_batch([b"x", b"y"]), make_batch([b"x"])[HEADER_SIZE:] + b"\xff" * 20
    ),
    **{
        f"{what}, {name}": poison_batch(body, codec=codec)
        for name, codec in compression.NAMES.items()
        if codec != compression.NONE
        for what, body in {
            "not compressed": b"no compressed data",
            "compressed garbage": compression.compress(codec, b"\xff" * 37),
        }.items()
    },
}
"""Kinds at which librdkafka stops, some with an error and some without."""


def split_batches(data: bytes | memoryview | None) -> list[tuple[BatchHeader, memoryview]]:
    """The whole batches in the bytes of a fetch answer."""
    view = memoryview(data or b"")
    batches = []
    while len(view) >= HEADER_SIZE:
        header = read_header(view)
        if header.size > len(view):
            break
        batches.append((header, view[: header.size]))
        view = view[header.size :]
    return batches


def all_records(data: bytes | memoryview | None) -> list[Record]:
    return [record for header, batch in split_batches(data) for record in decode_records(batch, header)]


def read_all(client: RawClient, topic: str, *, partition: int = 0) -> Sequence[tuple[BatchHeader, bytes]]:
    """Every batch of a partition, as stored."""
    end = client.end_offset(topic, partition=partition)
    offset, batches = 0, []
    while offset < end:
        answer = client.fetch(topic, offset, partition=partition)
        assert answer.error_code.name == "none", answer.error_code
        part = split_batches(answer.records)
        assert part, f"nothing at offset {offset} of {end}"
        batches += [(header, bytes(batch)) for header, batch in part]
        offset = part[-1][0].next_offset
    return batches
