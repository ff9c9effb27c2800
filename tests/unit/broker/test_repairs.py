"""What is damaged here is asked of the others, the leader first, until one has it whole."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.broker import repairs as repairs_module
from penstock.broker.damaged_logs import DamagedLogs
from penstock.broker.metrics import Metrics
from penstock.broker.repairs import Repairs
from penstock.peers.connection import PeerError
from penstock.storage import MemoryStorage
from penstock.storage.interface import DamagedRange
from penstock.types import ErrorCode
from penstock.wire.batch import patched_prefix, read_header
from tests.unit.storage.builders import TOPIC_ID, batch

if TYPE_CHECKING:
    import pytest


def stored(offset: int) -> bytes:
    data = batch([b"%03d" % offset])
    return patched_prefix(read_header(data), offset, 0) + data[16:]


SIZE = len(stored(0))
DAMAGE = DamagedRange("t-0/0.log", 5 * SIZE, 2 * SIZE, 5, 7, "CRC mismatch")
WHOLE = stored(5) + stored(6)


class Log:
    closed = False
    name = "t-0"

    def __init__(self) -> None:
        self.found = [DAMAGE]
        self.given_up: list[str] = []

    def damage(self) -> list[DamagedRange]:
        return self.found

    def mend(self, damage: DamagedRange, data: bytes) -> bool:
        if data == WHOLE:
            self.found = [each for each in self.found if each != damage]
        return data == WHOLE


class FakePeers:
    """Brokers by id: an error, or batches of which an answer has at most some."""

    def __init__(self, brokers: dict[int, Any], batches_max: int = 9) -> None:
        self.brokers = brokers
        self.batches_max = batches_max
        self.asked: list[tuple[int, int]] = []

    async def ask(self, node_id: int, lane: Any, key: int, version: int, body: Any, **_: Any) -> Any:
        assert (key, version, lane.value) == (1, 12, "repairs")
        (wanted,) = body["topics"][0]["partitions"]
        offset = wanted["fetch_offset"]
        self.asked.append((node_id, offset))
        has = self.brokers[node_id]
        if isinstance(has, Exception):
            raise has
        error, records = has, b""
        if isinstance(has, dict):
            error = ErrorCode.none
            records = b"".join(has.get(at, b"") for at in range(offset, offset + self.batches_max))
        told = SimpleNamespace(error_code=error, records=records)
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[told])])


def run(
    peers: FakePeers, *, high_watermark: int = 20, rounds: int = 1, storage: MemoryStorage | None = None
) -> tuple[Log, Metrics]:
    damaged_logs = DamagedLogs(storage or MemoryStorage())
    image = SimpleNamespace(isr=(1, 2, 3), leader=3)
    log = Log()
    partition: Any = SimpleNamespace(
        topic="t",
        index=0,
        topic_id=TOPIC_ID,
        log=log,
        image=image,
        high_watermark=high_watermark,
        give_up=log.given_up.append,
    )
    metrics = Metrics()

    async def work() -> None:
        repairs = Repairs(1, peers, damaged_logs, metrics)  # type: ignore[arg-type]
        for _ in range(rounds):
            await repairs.repair(partition)

    asyncio.run(work())
    return log, metrics


ALL = {offset: stored(offset) for offset in range(20)}


def test_the_leader_is_asked_first_and_as_often_as_needed(caplog: pytest.LogCaptureFixture) -> None:
    peers = FakePeers({3: ALL}, batches_max=1)
    log, metrics = run(peers)
    assert peers.asked == [(3, 5), (3, 6)]
    assert (log.found, metrics.scrub_repaired) == ([], 1)
    assert f"t-0: mended {2 * SIZE} bytes at {5 * SIZE} of t-0/0.log, from offset 5 on" in caplog.text


def test_others_are_asked_when_one_has_it_not() -> None:
    for worse in (PeerError("gone"), ErrorCode.kafka_storage_error, {}, ALL | {6: stored(6) + b"longer"}):
        peers = FakePeers({3: worse, 2: ALL})
        log, metrics = run(peers)
        assert (3, 5) in peers.asked
        assert (log.found, metrics.scrub_repaired) == ([], 1)


def test_what_is_not_committed_is_nobody_elses_business() -> None:
    peers = FakePeers({2: ALL, 3: ALL})
    log, metrics = run(peers, high_watermark=6)
    assert (log.found, metrics.scrub_repaired) == ([DAMAGE], 0)


def test_nobody_is_asked_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = FakePeers({2: {}, 3: {}})
    run(peers, rounds=5)
    assert peers.asked == [(3, 5), (2, 5)]
    monkeypatch.setattr(repairs_module, "TRY_AGAIN_S", 0.0)
    run(peers, rounds=5)
    assert len(peers.asked) > 4


def test_where_others_have_other_bytes_the_log_is_given_up_to_be_filled_anew() -> None:
    storage = MemoryStorage()
    log, _ = run(FakePeers({2: PeerError("gone"), 3: ErrorCode.kafka_storage_error}), storage=storage)
    assert log.given_up == []
    assert DamagedLogs(storage).maybe_reason("t-0", TOPIC_ID) is None, "nobody has said that it differs"
    log, _ = run(FakePeers({2: PeerError("gone"), 3: {5: stored(5) + b"compacted"}}), storage=storage)
    assert len(log.given_up) == 1
    noted = DamagedLogs(storage)
    assert "from offset 5 on is damaged" in str(noted.maybe_reason("t-0", TOPIC_ID))
    assert noted.maybe_reason("t-0", UUID(int=99)) is None, "that was another topic of this name"
    noted.forget("t-0")
    assert DamagedLogs(storage).maybe_reason("t-0", TOPIC_ID) is None
