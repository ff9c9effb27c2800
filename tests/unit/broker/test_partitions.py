"""Logs that cannot be opened: each is out of service alone, and comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from penstock.broker import housekeeper
from penstock.broker.broker import Broker
from penstock.broker.lost_replicas import LostReplicas
from penstock.config import NodeConfig
from penstock.metadata.assignments import NewTopic
from penstock.metadata.image import PartitionImage
from penstock.metadata.topics import TopicReference
from penstock.storage import FileStorage, LogConfig, MemoryStorage, StorageError
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import read_header
from tests.support.raw import make_batch
from tests.unit.broker.in_process import InProcess, eventually, with_broker
from tests.unit.storage.disks import QuickDisk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def fail_to_open(client: InProcess, is_bad: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    storage = client.broker.storage
    real = storage.open_log

    def open_log(name: str, *arguments: Any, **options: Any) -> Any:
        if is_bad(name):
            raise StorageError(f"cannot open {name}: No space left on device")
        return real(name, *arguments, **options)

    monkeypatch.setattr(storage, "open_log", open_log)


def refusal(client: InProcess, topic: str, index: int = 0) -> ErrorCode:
    try:
        client.broker.partitions.require(topic, index)
    except ApiError as error:
        return error.code
    return ErrorCode.none


def test_a_log_that_cannot_be_opened_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the topics of one change, and of the partitions of one topic."""

    async def work(client: InProcess) -> None:
        fail_to_open(client, lambda name: name.startswith("bad") or name == "some-1", monkeypatch)
        names = [NewTopic("bad", 2), NewTopic("some", 3), NewTopic("good", 1)]
        with pytest.raises(ApiError, match="No space left"):
            await client.broker.controller.create_topics(names)
        assert [refusal(client, "bad", index) for index in (0, 1)] == [ErrorCode.kafka_storage_error] * 2
        assert [refusal(client, "some", index) for index in (0, 1, 2)] == [
            ErrorCode.none, ErrorCode.kafka_storage_error, ErrorCode.none,
        ]  # fmt: skip
        assert refusal(client, "good") is ErrorCode.none
        await client.broker.controller.create_topics([NewTopic("later")])
        assert refusal(client, "later") is ErrorCode.none, "what failed before fails no later change"

    with_broker(work)


def test_at_the_start_it_stops_no_other_either(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = NodeConfig(port=0, http_port=None, data=tmp_path)

    async def run(work: Callable[[InProcess], Awaitable[None]]) -> None:
        storage = FileStorage.open(tmp_path, 1, cluster_id="c", disk=QuickDisk())
        broker = Broker(config, storage)
        await broker.start()
        try:
            await work(InProcess(broker))
        finally:
            await broker.stop()
            storage.close()

    async def create(client: InProcess) -> None:
        await client.broker.controller.create_topics([NewTopic("bad"), NewTopic("good"), NewTopic("whose")])

    async def check(client: InProcess) -> None:
        assert refusal(client, "good") is ErrorCode.none
        assert refusal(client, "bad") is ErrorCode.kafka_storage_error
        assert refusal(client, "whose") is ErrorCode.kafka_storage_error
        assert not client.broker.lost_replicas.found, "there is nobody to leave it to"

    asyncio.run(run(create))
    (tmp_path / "whose-0" / "partition").write_bytes(b"rotten")
    real = FileStorage.open_log

    def open_log(self: FileStorage, name: str, *arguments: Any, **options: Any) -> Any:
        if name == "bad-0":
            raise StorageError("cannot open bad-0: it is damaged")
        return real(self, name, *arguments, **options)

    monkeypatch.setattr(FileStorage, "open_log", open_log)
    asyncio.run(run(check))


def test_what_cannot_be_opened_is_left_to_replicas_that_are_in_sync() -> None:
    lost = LostReplicas(MemoryStorage(UUID(int=1)), 1, page_cache_survived=True)
    lost.cannot_open("alone-0", PartitionImage(1, 0, (1, 2), (1,), 0), "damaged")
    lost.cannot_open("out-0", PartitionImage(2, 0, (1, 2), (2,), 0), "damaged")
    assert lost.found == {}
    lost.cannot_open("t-0", PartitionImage(1, 0, (1, 2), (1, 2), 0), "damaged")
    assert lost.found == {"t-0": "damaged"}


def test_it_is_tried_again_until_it_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeper, "OPEN_AGAIN_S", 0.01)

    async def work(client: InProcess) -> None:
        is_full = True
        fail_to_open(client, lambda name: is_full and name == "t-0", monkeypatch)
        with pytest.raises(ApiError, match="No space left"):
            await client.broker.controller.create_topics([NewTopic("t")])
        assert refusal(client, "t") is ErrorCode.kafka_storage_error
        is_full = False
        await eventually(lambda: refusal(client, "t") is ErrorCode.none)
        assert client.broker.partitions.require("t", 0).is_leader
        assert not client.broker.partitions.failed

    with_broker(work)


def test_a_topic_that_could_not_be_opened_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: InProcess) -> None:
        fail_to_open(client, lambda name: name == "t-0", monkeypatch)
        controller = client.broker.controller
        with pytest.raises(ApiError, match="No space left"):
            await controller.create_topics([NewTopic("t")])
        await controller.delete_topics([TopicReference("t")])
        assert not client.broker.partitions.failed
        assert refusal(client, "t") is ErrorCode.unknown_topic_or_partition

    with_broker(work)


def start(tmp_path: Path, work: Callable[[Broker], Awaitable[None]]) -> None:
    """The node on these files, once more."""

    async def run() -> None:
        storage = FileStorage.open(tmp_path / "data", 1, disk=QuickDisk())
        broker = Broker(NodeConfig(port=0, http_port=None), storage)
        await broker.start()
        try:
            await work(broker)
        finally:
            await broker.stop()
            storage.close()

    asyncio.run(run())


async def nothing(broker: Broker) -> None:
    del broker


def test_a_folder_that_was_left_of_a_deleted_topic_goes_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete(broker: Broker) -> None:
        await broker.controller.create_topics([NewTopic("t")])

        def refuse(name: str) -> None:
            raise StorageError(f"cannot delete {name}: Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(broker.storage, "delete_log", refuse)
            await broker.controller.delete_topics([TopicReference("t")])
            await broker.controller.publisher.settled()
            await eventually(lambda: broker.partitions.get("t", 0) is None)
            await broker.partitions.close()

    start(tmp_path, delete)
    assert (tmp_path / "data" / "t-0").is_dir()
    start(tmp_path, nothing)
    assert not list((tmp_path / "data").glob("*t-0*"))


def test_a_folder_of_a_topic_that_nobody_knows_is_set_aside_and_not_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its metadata may have been those of a cluster that was begun anew by mistake."""
    start(tmp_path, nothing)
    storage = FileStorage.open(tmp_path / "data", 1, disk=QuickDisk())
    log = storage.open_log("t-0", UUID(int=9), LogConfig(), now_ms=0)
    batch = make_batch([b"all that is left"])
    log.append(batch, read_header(batch), leader_epoch=0, now_ms=0)
    log.flush()
    storage.close()
    start(tmp_path, nothing)
    (aside,) = (tmp_path / "data").glob(".aside-t-0-*")
    assert b"all that is left" in b"".join(path.read_bytes() for path in aside.glob("*.log"))
    assert f"it was moved to {aside}" in caplog.text
