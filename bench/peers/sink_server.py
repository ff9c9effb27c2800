"""The raw sink: the least a single-threaded server can do for a librdkafka producer.

Frames are received into one buffer per connection and written to the file from there; nothing is checked, no
offset is kept. The answer to Produce is built once per topic, and only its correlation id is set per request.
The file is emptied when a client leaves, as a topic of the others is deleted after each round: all of them
write into memory that the round before has given back, which on a virtual machine is ten times faster than
fresh memory.
"""

from __future__ import annotations

import asyncio
import datetime
import io
import os
import struct
import sys
from typing import Final, cast

import uvloop
from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.metadata.v9.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.produce.v9.response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta, i64

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
BUFFER_BYTES: Final = 8 * 1024 * 1024
# librdkafka sends the newest message format only to a server that lists Fetch too.
VERSIONS: Final = {PRODUCE: (3, 9), FETCH: (4, 11), METADATA: (9, 9), API_VERSIONS: (0, 3)}
_HEADER: Final = struct.Struct(">ihhi")  # length, api key, api version, correlation id
_NO_WAIT: Final = cast("i32Timedelta", datetime.timedelta(0))
_NO_TAGS: Final = b"\x00"


class Canned:
    """The answers, shared by all connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.produce = b""
        ranges = tuple(
            ApiVersion(api_key=i16(key), min_version=i16(first), max_version=i16(last))
            for key, (first, last) in VERSIONS.items()
        )
        self.api_versions = _encode(
            ApiVersionsResponse(error_code=ErrorCode.none, api_keys=ranges, throttle_time=_NO_WAIT)
        )

    def metadata(self, body: bytes) -> bytes:
        request, _ = entity_reader(MetadataRequest)(body, 0)
        names = [topic.name for topic in request.topics or ()]
        if names:
            self.produce = _encode(_produced(names[0]))
        broker = MetadataResponseBroker(node_id=BrokerId(1), host="127.0.0.1", port=i32(self._port))
        return _encode(
            MetadataResponse(
                throttle_time=_NO_WAIT,
                brokers=(broker,),
                cluster_id="sink",
                controller_id=BrokerId(1),
                topics=tuple(_topic(name) for name in names),
            )
        )


def _topic(name: TopicName) -> MetadataResponseTopic:
    leader = (BrokerId(1),)
    partition = MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(0),
        leader_id=BrokerId(1),
        leader_epoch=i32(0),
        replica_nodes=leader,
        isr_nodes=leader,
    )
    return MetadataResponseTopic(error_code=ErrorCode.none, name=name, partitions=(partition,))


def _produced(name: TopicName) -> ProduceResponse:
    partition = PartitionProduceResponse(
        index=i32(0), error_code=ErrorCode.none, base_offset=i64(0), record_errors=()
    )
    topic = TopicProduceResponse(name=name, partition_responses=(partition,))
    return ProduceResponse(responses=(topic,), throttle_time=_NO_WAIT)


def _encode(response: ApiVersionsResponse | MetadataResponse | ProduceResponse) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(response))(buffer, response)
    return buffer.getvalue()


class SinkConnection(asyncio.BufferedProtocol):
    def __init__(self, canned: Canned, file: int) -> None:
        self._canned, self._file = canned, file
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._start = self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        os.lseek(self._file, 0, os.SEEK_SET)
        os.ftruncate(self._file, 0)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._end == BUFFER_BYTES:
            kept = bytes(self._view[self._start : self._end])
            self._view[: len(kept)] = kept
            self._start, self._end = 0, len(kept)
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        while self._end - self._start >= _HEADER.size:
            length, key, version, correlation = _HEADER.unpack_from(self._view, self._start)
            after = self._start + 4 + length
            if after > self._end:
                return
            self._answer(key, version, correlation, self._view[self._start : after])
            self._start = after
        if self._start == self._end:
            self._start = self._end = 0

    def _answer(self, key: int, version: int, correlation: int, frame: memoryview) -> None:
        if key == PRODUCE:
            os.write(self._file, frame)
            self._send(correlation, _NO_TAGS + self._canned.produce)
        elif key == METADATA:
            client_id_size = max(0, struct.unpack_from(">h", frame, 12)[0])
            self._send(correlation, _NO_TAGS + self._canned.metadata(bytes(frame[15 + client_id_size :])))
        elif key == API_VERSIONS and version == 3:
            self._send(correlation, self._canned.api_versions)
        else:
            self._transport.abort()

    def _send(self, correlation: int, body: bytes) -> None:
        self._transport.write(struct.pack(">ii", 4 + len(body), correlation) + body)


async def serve(port: int, path: str) -> None:
    canned, file = Canned(port), os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SinkConnection(canned, file), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
