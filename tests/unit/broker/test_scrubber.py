"""Rounds over what is closed: what they find, how fast they are, and who is told."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.broker import scrubber as scrubber_module
from penstock.broker.metrics import Metrics
from penstock.broker.scrubber import NO_BROKER, Scrubber
from penstock.config import NodeConfig
from penstock.storage import StorageError
from penstock.storage.interface import DamagedRange
from tests.unit.broker.in_process import InProcess, eventually, with_broker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import pytest

DAMAGE = DamagedRange("t-0/0.log", 300, 88, 7, 8, "CRC mismatch")
DESCRIBE_LOG_DIRS = 35


class Piece:
    size = 1000

    def __init__(self, *, is_good: bool | OSError = True) -> None:
        self._is_good = is_good

    def maybe_digest(self) -> bytes | None:
        if isinstance(self._is_good, OSError):
            raise self._is_good
        return b"digest" if self._is_good else None


class Log:
    closed = False

    def __init__(self, *pieces: Piece) -> None:
        self.pieces = pieces
        self.closed_bytes = sum(piece.size for piece in pieces)
        self.found: list[DamagedRange] = []

    def scrub_pieces(self) -> Iterator[Piece]:
        return iter(self.pieces)

    def confirm(self, piece: Piece) -> list[DamagedRange]:
        assert piece in self.pieces
        self.found = [DAMAGE]
        return self.found

    def damage(self) -> list[DamagedRange]:
        return self.found


def with_scrubber(
    work: Callable[[Scrubber, Metrics], Awaitable[None]], logs: dict[str, Log], **config: Any
) -> None:
    async def run() -> None:
        partitions: Any = [
            SimpleNamespace(topic=topic, index=0, log=log, follower=None) for topic, log in logs.items()
        ]
        metrics = Metrics()
        nobody: Any = None  # leaders ask nobody
        scrubber = Scrubber(NodeConfig(**config), partitions, metrics, nobody)
        await work(scrubber, metrics)
        await scrubber.stop()

    asyncio.run(run())


def test_what_is_found_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async def work(scrubber: Scrubber, metrics: Metrics) -> None:
        ended = await scrubber.ask(None, 10)
        assert (ended.bytes_total, ended.bytes_left) == (4000, 0)
        assert ended.found() == [("t", 0, DAMAGE, NO_BROKER)]
        assert (metrics.scrubbed_bytes, metrics.scrub_damage_found) == (4000, 1)
        assert "t-0 has rotted: t-0/0.log is damaged at byte 300 (CRC mismatch)" in caplog.text

    with_scrubber(work, {"t": Log(Piece(), Piece(is_good=False)), "u": Log(Piece(), Piece())})


def test_a_round_of_one_topic() -> None:
    async def work(scrubber: Scrubber, metrics: Metrics) -> None:
        assert (await scrubber.ask("u", 10)).found() == []
        assert metrics.scrubbed_bytes == 1000

    with_scrubber(work, {"t": Log(Piece(is_good=False)), "u": Log(Piece())})


def test_files_that_are_gone_and_logs_that_fail_stop_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Log):
        def scrub_pieces(self) -> Iterator[Piece]:
            raise StorageError("cannot read its index")

    async def work(scrubber: Scrubber, metrics: Metrics) -> None:
        assert (await scrubber.ask(None, 10)).bytes_left == 0
        assert metrics.scrubbed_bytes == 1000
        assert "scrubbing bad-0: cannot read its index" in caplog.text

    gone = Piece(is_good=FileNotFoundError())
    with_scrubber(work, {"bad": Failing(), "broken": Log(Piece(is_good=OSError())), "t": Log(gone, Piece())})


def test_no_faster_than_its_rate() -> None:
    """With a second per piece, whoever asks is told how much is left, and that of the same round."""

    async def work(scrubber: Scrubber, metrics: Metrics) -> None:
        begun = await scrubber.ask(None, 0.05)
        assert (begun.bytes_total, begun.bytes_left) == (3000, 2000)
        assert await scrubber.ask(None, 0.01) is begun
        assert metrics.scrubbed_bytes == 1000

    with_scrubber(work, {"t": Log(Piece(), Piece(), Piece())}, scrub_bytes_per_second=1000)


def test_who_asks_after_the_end_begins_anew() -> None:
    async def work(scrubber: Scrubber, metrics: Metrics) -> None:
        first = await scrubber.ask(None, 10)
        assert await scrubber.ask(None, 10) is not first
        assert metrics.scrubbed_bytes == 2000

    with_scrubber(work, {"t": Log(Piece())})


def test_the_node_scrubs_by_itself_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubber_module, "FIRST_ROUND_S", 0.0)

    async def work(scrubber: Scrubber, metrics: Metrics) -> None:
        running = asyncio.create_task(scrubber.run())
        await eventually(lambda: metrics.scrubbed_bytes == 1000)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert scrubber.current is None

    with_scrubber(work, {"t": Log(Piece())})


def test_asked_over_the_network() -> None:
    async def work(client: InProcess) -> None:
        answer = await client.ask(DESCRIBE_LOG_DIRS, 5, {"topics": None})
        (progress,) = answer.results
        assert (progress.total_bytes, progress.usable_bytes) == (0, 0)
        one = {"topic": "t", "partitions": ()}
        assert (await client.ask(DESCRIBE_LOG_DIRS, 5, {"topics": [one]})).error_code == 0
        refused = await client.ask(DESCRIBE_LOG_DIRS, 5, {"topics": [one, one]})
        assert refused.error_code.name == "invalid_request"

    with_broker(work)
