"""A disk that fills up: writers hear why, readers go on, nothing acknowledged is lost."""

from __future__ import annotations

import os
import resource
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.broker import BrokerProcess
from tests.support.raw import RawClient, all_records, make_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DISK_BYTES = 8 * 1024 * 1024
VALUE = b"v" * 100_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for DISK_BYTES; without the right to mount one, files may not grow beyond that."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() == 0:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
        subprocess.run(mount, check=True)
        yield folder
        subprocess.run(["umount", str(folder)], check=True)
    else:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, limits[1]))
        yield folder
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def fill(client: RawClient, topic: str) -> tuple[int, str]:
    """(batches acknowledged, the error message that ended it)."""
    for count in range(DISK_BYTES // len(VALUE) + 10):
        answer = client.produce(topic, make_batch([VALUE]))
        if answer.error_code.name != "none":
            assert answer.error_code.name == "kafka_storage_error"
            return count, answer.error_message or ""
        assert answer.base_offset == count
    raise AssertionError("the disk does not fill up")


@pytest.mark.parametrize("flush", ["commit", "os"])
def test_a_disk_that_fills_up(small_disk: Path, flush: str) -> None:
    broker = BrokerProcess(small_disk.parent, "--flush", flush)
    broker.data = small_disk / "data"
    with broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("spare")
            assert client.produce("spare", make_batch([b"s" * 1_000_000])).error_code.name == "none"
            client.create_topic("full")
            count, message = fill(client, "full")
            assert "full-0" in message
            assert "read-only" in message
            assert client.produce("full", make_batch([b"one more"])).error_code.name == "kafka_storage_error"
            # Readers go on.
            assert client.end_offset("full") == count
            fetched = client.fetch("full", count - 1, partition_max_bytes=1_000_000)
            assert [record.value for record in all_records(fetched.records)] == [VALUE]
        # As a crash finds it: no clean stop is possible here.
        broker.kill()
        for log in (broker.data / "spare-0").glob("*.log"):
            log.write_bytes(b"")  # somebody makes room
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert client.end_offset("full") == count
            assert client.produce("full", make_batch([b"one more"])).base_offset == count
            values = [all_records(client.fetch("full", offset).records)[0].value for offset in range(count)]
            assert values == [VALUE] * count
