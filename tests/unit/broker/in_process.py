"""A broker in memory, asked through its router: real frames in every version, without a network."""

from __future__ import annotations

import asyncio
import io
import struct
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from kio.index import load_request_schema
from kio.serial import entity_reader, entity_writer

from penstock.broker.broker import Broker
from penstock.broker.context import ConnectionState
from penstock.broker.reply import Deferred, Reply
from penstock.broker.router import Router, Waiting
from penstock.config import NodeConfig
from penstock.storage import MemoryStorage
from penstock.wire.exchange import response_schema
from penstock.wire.shapes import lower

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.wire.shapes import Body

CLIENT_ID = b"tester"
API_VERSIONS_KEY = 18
WAIT_S_MAX = 60.0
"""A machine that is busy with other tests is no failure."""


class InProcess:
    """`ask(key, version, body)` encodes the request as a client does and decodes the answer."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._state = ConnectionState("127.0.0.1")
        self._router = Router(broker)

    async def ask(self, key: int, version: int, body: Body) -> Any:
        reply = self._router.dispatch(request_frame(key, version, body), self._state)
        if isinstance(reply, Waiting):
            reply = await reply.reply()
        if isinstance(reply, Deferred):
            reply = await _resolved(reply)
        assert isinstance(reply, Reply)
        return read_response(key, version, b"".join(map(bytes, reply.buffers)))


async def _resolved(deferred: Deferred[Reply]) -> Reply:
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    deferred.then(future.set_result)
    return await future


def request_frame(key: int, version: int, body: Body) -> bytes:
    request_type = load_request_schema(key, version)
    frame = io.BytesIO()
    frame.write(struct.pack(">hhih", key, version, 42, len(CLIENT_ID)) + CLIENT_ID)
    if request_type.__flexible__:
        frame.write(b"\0")
    entity_writer(request_type)(frame, lower(body, request_type, _names(body)))
    return frame.getvalue()


def _names(value: object) -> frozenset[str]:
    """All names in a body: a test may name fields that only some versions have."""
    if isinstance(value, Mapping):
        return frozenset(value).union(*map(_names, value.values()))
    if isinstance(value, list | tuple):
        return frozenset().union(*map(_names, value))
    return frozenset()


def read_response(key: int, version: int, frame: bytes) -> Any:
    length, correlation_id = struct.unpack_from(">ii", frame)
    assert (length, correlation_id) == (len(frame) - 4, 42)
    response_type = response_schema(key, version)
    has_tags = response_type.__flexible__ and key != API_VERSIONS_KEY
    response, size = entity_reader(response_type)(frame, 8 + has_tags)
    assert 8 + has_tags + size == len(frame), "bytes are left over"
    return response


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not condition():  # noqa: ASYNC110 the condition is a state that nobody signals
            await asyncio.sleep(0.002)


def begin_epoch(partition: Partition, leader_epoch: int) -> None:
    """Let the metadata say that the partition's leader leads in another epoch."""
    image = partition.image
    partition.apply(
        image._replace(leader_epoch=leader_epoch, partition_epoch=image.partition_epoch + 1), live={1}
    )


def with_broker(work: Callable[[InProcess], Awaitable[None]], **config: Any) -> None:
    """Run `work` against a fresh broker in memory."""

    async def run() -> None:
        storage = MemoryStorage(uuid.UUID(int=7), node_id=1, cluster_id="test-cluster")
        settings = {"port": 0, "http_port": None, "storage": "memory"} | config
        broker = Broker(NodeConfig(**settings), storage)
        await broker.start()
        try:
            await work(InProcess(broker))
        finally:
            await broker.stop()

    asyncio.run(run())
