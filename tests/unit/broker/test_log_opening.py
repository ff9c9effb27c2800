"""Logs that are damaged: who may begin anew, and who is all there is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker.damaged_logs import DamagedLogs
from penstock.broker.log_opening import LogOpener
from penstock.broker.lost_replicas import LostReplicas
from penstock.metadata.image import PartitionImage
from penstock.storage import FileStorage, LogConfig, PartitionLog, RotError, StorageError
from tests.unit.storage.builders import NOW_MS, TOPIC_ID, append_flushed, batch
from tests.unit.storage.disks import QuickDisk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALONE = PartitionImage(1, 0, (1, 2), (1,), 0)
AMONG_OTHERS = PartitionImage(2, 0, (1, 2), (1, 2), 0)
OUT_OF_SYNC = PartitionImage(2, 0, (1, 2), (2,), 0)


class Node:
    def __init__(self, storage: FileStorage) -> None:
        self.storage = storage
        self.damaged_logs = DamagedLogs(storage)
        self.lost = LostReplicas(storage, 1, page_cache_survived=True)

    def open(self, image: PartitionImage) -> PartitionLog | StorageError | None:
        opener = LogOpener(self.storage, self.lost, self.damaged_logs)
        return opener.open("t-0", TOPIC_ID, image, LogConfig(), NOW_MS)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """With a log of one batch, closed."""
    storage = FileStorage.open(tmp_path, 1, disk=QuickDisk())
    log = storage.open_log("t-0", TOPIC_ID, LogConfig(), NOW_MS)
    append_flushed(log, batch([b"v"]))
    log.close()
    yield Node(storage)
    storage.close()


def end_of(opened: PartitionLog | StorageError | None) -> int:
    assert isinstance(opened, PartitionLog), opened
    return opened.log_end_offset


def asides(node: Node) -> list[str]:
    return [name for name in QuickDisk().listdir(node.storage.path) if name.startswith(".aside-t-0-")]


def test_a_log_that_is_noted_as_damaged(node: Node) -> None:
    asyncio.run(node.damaged_logs.add("t-0", TOPIC_ID, "offset 0 is damaged"))
    assert node.open(AMONG_OTHERS) is None
    assert node.lost.found == {"t-0": "offset 0 is damaged"}
    assert asides(node) == []
    assert end_of(node.open(OUT_OF_SYNC)) == 0
    assert len(asides(node)) == 1
    assert [name for name, _ in node.storage.logs()] == ["t-0"]
    assert DamagedLogs(node.storage).maybe_reason("t-0", TOPIC_ID) is None


def test_nobody_gives_up_the_only_replica_in_sync(node: Node) -> None:
    asyncio.run(node.damaged_logs.add("t-0", TOPIC_ID, "offset 0 is damaged"))
    assert end_of(node.open(ALONE)) == 1
    assert asides(node) == []
    assert not node.lost.found


@pytest.mark.parametrize("image", [ALONE, AMONG_OTHERS, OUT_OF_SYNC])
def test_a_log_that_cannot_be_opened_for_rot(
    node: Node, image: PartitionImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = node.storage.open_log

    def open_log(*arguments: Any, **options: Any) -> PartitionLog:
        if not asides(node):
            raise RotError("its newest segment is damaged")
        return real(*arguments, **options)

    monkeypatch.setattr(node.storage, "open_log", open_log)
    opened = node.open(image)
    if image is ALONE:
        assert isinstance(opened, RotError)
    elif image is AMONG_OTHERS:
        assert opened is None
        assert node.lost.found == {"t-0": "its newest segment is damaged"}
    else:
        assert end_of(opened) == 0
    assert len(asides(node)) == (image is OUT_OF_SYNC)


def test_a_log_that_is_open_is_not_set_aside(node: Node) -> None:
    node.open(ALONE)
    with pytest.raises(StorageError, match="t-0 is open"):
        node.storage.set_aside("t-0")
