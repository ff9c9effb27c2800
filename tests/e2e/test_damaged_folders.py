"""Data folders that somebody or something has been at: one clear line, exit 1, nothing harmed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from penstock.storage import running_mark
from tests.support.raw import RawClient, make_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.broker import BrokerProcess


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", running_mark.FILE)
    }


def lose_metadata(data: Path) -> None:
    shutil.rmtree(data / "__cluster_metadata-0")


def damage_metadata(data: Path) -> None:
    (segment,) = (data / "__cluster_metadata-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:100] + b"\xff" * 20 + segment.read_bytes()[120:])
    for index in (data / "__cluster_metadata-0").glob("*.index"):
        index.unlink()
    (data / "__cluster_metadata-0" / "clean").unlink()


def damage_meta_file(data: Path) -> None:
    (data / "meta.json").write_text('{"format": 1, "stor')


def come_from_the_future(data: Path) -> None:
    text = (data / "meta.json").read_text()
    assert '"format": 1' in text
    (data / "meta.json").write_text(text.replace('"format": 1', '"format": 99'))


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (lose_metadata, "__cluster_metadata-0 is missing"),
        (damage_metadata, "__cluster_metadata-0"),
        (damage_meta_file, "meta.json"),
        (come_from_the_future, "99"),
    ],
)
def test_one_clear_line_and_nothing_harmed(
    broker: BrokerProcess, harm: Callable[[Path], None], word: str
) -> None:
    with RawClient(broker.bootstrap) as client:
        client.create_topic("precious")
        assert client.produce("precious", make_batch([b"v"])).error_code.name == "none"
    assert broker.terminate() == 0
    harm(broker.data)
    before = contents(broker.data)
    broker.spawn()
    assert broker.wait() == 1
    lines = [line for line in broker.log.splitlines() if line.startswith("penstock:")]
    assert len(lines) == 1, broker.log
    assert word in lines[0]
    assert "Traceback" not in broker.log
    assert contents(broker.data) == before
