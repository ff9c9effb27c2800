"""A follower that has other bytes than its leader, all with good CRCs: found, named and filled anew."""

from __future__ import annotations

import asyncio
import re
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker import agreement as agreement_module
from penstock.broker.agreement import Agreement, Leader, digest_here, maybe_leader
from penstock.broker.damaged_logs import DamagedLogs
from penstock.broker.metrics import Metrics
from penstock.peers.connection import PeerError
from penstock.storage import FileStorage, MemoryStorage, RotError
from penstock.storage.rot import Stretch
from penstock.storage.scrubbing import RangeDigest
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import patched_prefix, read_header
from tests.support.raw import make_batch
from tests.unit.broker import small_cluster
from tests.unit.broker.in_process import InProcess, eventually
from tests.unit.broker.small_cluster import (
    SmallCluster,
    be_impatient,
    create,
    known,
    partition,
    with_cluster,
    write,
)
from tests.unit.storage.builders import TOPIC_ID

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.scrubber import Found

FETCH_SNAPSHOT = (59, 1)
COUNT = 20


def stored(offset: int, value: bytes, epoch: int = 0) -> bytes:
    data = make_batch([value])
    return patched_prefix(read_header(data), offset, epoch) + data[16:]


SIZE = len(stored(0, b"00"))


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to scrub in memory."""
    be_impatient(monkeypatch)
    monkeypatch.setattr(
        small_cluster, "new_storage", lambda node_id: FileStorage.open(tmp_path / str(node_id), node_id)
    )


async def fill(cluster: SmallCluster, topic: str, **configs: str) -> None:
    """Led by node 1, in segments of about five batches."""
    await create(cluster, topic, segment_bytes=str(5 * SIZE), **configs)
    for number in range(COUNT):
        await write(cluster.controller, topic, b"%02d" % number)
    await eventually(lambda: partition(cluster.other, topic).high_watermark == COUNT)


def first_segment(node: Broker, topic: str) -> Path:
    return Path(next(partition(node, topic).log.scrub_pieces()).segment.path)


def diverge(node: Broker, topic: str) -> None:
    """Another batch at offset 3, of the same size and with a good CRC."""
    path = first_segment(node, topic)
    data = bytearray(path.read_bytes())
    epoch = read_header(data[3 * SIZE :]).partition_leader_epoch
    data[3 * SIZE : 4 * SIZE] = stored(3, b"xx", epoch)
    path.write_bytes(data)


def flip(node: Broker, topic: str, at: int) -> None:
    path = first_segment(node, topic)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


async def scrub(node: Broker, topic: str) -> list[Found]:
    ended = await node.scrubber.ask(topic, 10)
    assert ended.bytes_left == 0
    return ended.found()


@pytest.mark.usefixtures("_files")
def test_a_follower_that_diverged_is_named_and_filled_anew(caplog: pytest.LogCaptureFixture) -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        await fill(cluster, "t")
        leader, follower = cluster.controller, cluster.other
        assert await scrub(follower, "t") == await scrub(leader, "t") == []
        assert leader.metrics.requests[FETCH_SNAPSHOT[0]] >= 3, "a piece per closed segment was compared"
        assert follower.metrics.scrub_disagreements == 0
        assert "ERROR" not in caplog.text

        before = partition(follower, "t").log
        path, whole = first_segment(follower, "t"), first_segment(leader, "t").read_bytes()
        diverge(follower, "t")
        answer = await client.ask(35, 5, {"topics": [{"topic": "t", "partitions": ()}]})
        _, told = answer.results
        assert (told.log_dir, told.total_bytes) == (str(path), 1)
        assert told.topics[0].partitions[0].offset_lag == 0
        assert follower.metrics.scrub_disagreements == 1
        assert re.search(
            r"t-0: offsets 0 to \d are not those of broker 1, the leader in epoch \d+, .* broker 2 fills",
            caplog.text,
        )

        await eventually(lambda: 2 not in known(cluster, "t").isr)
        await eventually(lambda: set(known(cluster, "t").isr) == {1, 2})
        assert partition(follower, "t").log is not before
        assert path.read_bytes() == whole
        assert await scrub(follower, "t") == []
        assert (leader.metrics.scrub_disagreements, known(cluster, "t").leader) == (0, 1)

    with_cluster(work)


@pytest.mark.usefixtures("_files")
def test_what_is_compacted_or_rotted_in_the_leader_or_deleted_there_is_not_compared() -> None:
    async def work(cluster: SmallCluster, _: InProcess) -> None:
        topics = ("compacted", "rotten", "misplaced", "deleted")
        for topic in topics:
            await fill(cluster, topic, cleanup_policy="compact" if topic == "compacted" else "delete")
            diverge(cluster.other, topic)
        # Since it was first read: a node does not check what it wrote itself.
        flip(cluster.controller, "rotten", 4 * SIZE - 1)
        flip(cluster.controller, "misplaced", 4 * SIZE)  # an offset, which no CRC covers
        partition(cluster.controller, "deleted").log.delete_records_before(1)
        for topic in topics:
            assert await scrub(cluster.other, topic) == []
        assert cluster.other.metrics.scrub_disagreements == 0

    with_cluster(work)


def test_who_asks_for_a_digest_gets_no_more_than_the_leader_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(cluster: SmallCluster, client: InProcess) -> None:
        await fill(cluster, "t")
        leader = InProcess(cluster.controller)
        epoch = known(cluster, "t").leader_epoch

        async def ask(
            node: InProcess, first: int, end: int, *, topic: str = "t", in_epoch: int = epoch
        ) -> tuple[str, bytes]:
            asked = {
                "partition": 0,
                "current_leader_epoch": in_epoch,
                "snapshot_id": {"end_offset": end, "epoch": in_epoch},
                "position": first,
            }
            body = {"topics": [{"name": topic, "partitions": [asked]}]}
            (told,) = (await node.ask(*FETCH_SNAPSHOT, body)).topics[0].partitions
            return told.error_code.name, bytes(told.unaligned_records or b"")

        whole = RangeDigest(2, 12)
        for offset in range(2, 12):
            whole.add(partition(cluster.other, "t").log.read(offset, 1, end_offset=offset + 1))
        topic_id = partition(cluster.other, "t").topic_id
        assert await ask(leader, 2, 12) == ("none", topic_id.bytes + whole.digest())
        assert await ask(client, 2, 12) == ("not_leader_or_follower", b"")
        assert await ask(leader, 2, 12, topic="u") == ("unknown_topic_or_partition", b"")
        for wrong in (-1, epoch - 1, epoch + 1):
            assert await ask(leader, 2, 12, in_epoch=wrong) == ("fenced_leader_epoch", b"")
        for first, end in ((-1, 5), (5, 5), (6, 5), (0, COUNT + 1)):
            assert await ask(leader, first, end) == ("offset_out_of_range", b"")
        monkeypatch.setattr(agreement_module, "BYTES_MAX", 3 * SIZE)
        assert await ask(leader, 0, 4) == ("message_too_large", b"")

    with_cluster(work)


def test_an_epoch_that_ends_while_the_leader_reads_leaves_no_answer() -> None:
    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await fill(cluster, "t")
        led = partition(cluster.controller, "t")
        asking = asyncio.ensure_future(digest_here(led, 0, 5, led.leader_epoch))
        await asyncio.sleep(0)  # it has read, and waits for the digest
        image = led.image
        led.apply(
            image._replace(leader=2, leader_epoch=image.leader_epoch + 1, partition_epoch=99), live={1, 2}
        )
        with pytest.raises(ApiError) as refused:
            await asking
        assert refused.value.code is ErrorCode.not_leader_or_follower

    with_cluster(work)


def test_a_digest_is_of_good_batches_that_fill_the_range() -> None:
    def digest_of(batches: bytes, end_offset: int) -> bytes:
        digest = RangeDigest(0, end_offset)
        digest.add(batches)
        return digest.digest()

    whole = stored(0, b"00") + stored(1, b"01")
    assert digest_of(whole, 2) == blake2b(whole).digest()
    for end_offset, batches in ((1, whole), (3, whole), (1, whole[:-1]), (1, whole[:-1] + b"!")):
        with pytest.raises(RotError):
            digest_of(batches, end_offset)


# The follower's side, with everything else made up

LEADER = Leader(3, 7)
PIECE: Any = SimpleNamespace(
    size=SIZE,
    segment=SimpleNamespace(path="t-0/0.log"),
    stretch=Stretch(0, SIZE, 5, 6),
)


def made_up(**changes: Any) -> Any:
    follower = SimpleNamespace(confirmed_end_offset=6, state=SimpleNamespace(leader=3, leader_epoch=7))
    log = SimpleNamespace(name="t-0", closed=False, error=None, compacted_to=5)
    fields = {
        "topic": "t",
        "index": 0,
        "topic_id": TOPIC_ID,
        "config": SimpleNamespace(compact=False),
        "follower": follower,
        "log": log,
    }
    for path, value in changes.items():
        owner, _, name = path.rpartition("__")
        setattr(fields[owner], name, value) if owner else fields.update({name: value})
    return SimpleNamespace(**fields)


NOT_TO_COMPARE: list[dict[str, Any]] = [
    {"follower": None},
    {"follower__confirmed_end_offset": 5},
    {"config__compact": True},
    {"log__compacted_to": 6},
    {"log__closed": True},
    {"log__error": RotError("given up already")},
]


def test_only_what_is_confirmed_and_never_was_compacted_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert maybe_leader(made_up(), PIECE) == LEADER
    for changes in NOT_TO_COMPARE:
        assert maybe_leader(made_up(**changes), PIECE) is None, changes
    monkeypatch.setattr(agreement_module, "BYTES_MAX", SIZE - 1)
    assert maybe_leader(made_up(), PIECE) is None


class FakePeers:
    """What the leader says, and what happens before it is heard."""

    def __init__(self, says: Any, partition: Any, meanwhile: dict[str, Any]) -> None:
        self.says = says
        self.partition = partition
        self.meanwhile = meanwhile
        self.asked = 0

    async def ask(self, node_id: int, *_: Any, **__: Any) -> Any:
        assert node_id == LEADER.id
        self.asked += 1
        self.partition.__dict__.update(made_up(**self.meanwhile).__dict__)
        if isinstance(self.says, Exception):
            raise self.says
        error, answered = (ErrorCode.none, self.says) if isinstance(self.says, bytes) else (self.says, None)
        told = SimpleNamespace(error_code=error, unaligned_records=answered)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[told])])


def compare(says: Any, *, times: int = 1, **meanwhile: Any) -> tuple[bool, int]:
    """(whether the log was given up; how often the leader was asked)."""
    given_up: list[str] = []
    metrics, damaged_logs = Metrics(), DamagedLogs(MemoryStorage())
    partition = made_up()
    partition.give_up = given_up.append
    peers = FakePeers(says, partition, meanwhile)

    async def work() -> None:
        agreement = Agreement(1, peers, damaged_logs, metrics)  # type: ignore[arg-type]
        for _ in range(times):
            found = await agreement.maybe_disagreement(partition, PIECE, b"ours", LEADER)
            assert (found is not None) == bool(given_up)

    asyncio.run(work())
    assert metrics.scrub_disagreements == len(given_up)
    assert (damaged_logs.maybe_reason("t-0", TOPIC_ID) is not None) == bool(given_up)
    return bool(given_up), peers.asked


def test_a_verdict_needs_an_answer_for_this_topic_and_nothing_that_changed_meanwhile() -> None:
    theirs = TOPIC_ID.bytes + b"theirs"
    assert compare(theirs) == (True, 1)
    assert compare(TOPIC_ID.bytes + b"ours") == (False, 1)
    assert compare(b"another topic's" + b"theirs") == (False, 1)
    assert compare(ErrorCode.kafka_storage_error) == (False, 1)
    for meanwhile in (
        *NOT_TO_COMPARE,
        {"follower__state": SimpleNamespace(leader=3, leader_epoch=8)},
        {"follower__state": SimpleNamespace(leader=2, leader_epoch=7)},
    ):
        assert compare(theirs, **meanwhile) == (False, 1), meanwhile


def test_a_leader_that_does_not_answer_is_not_asked_for_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(PeerError("gone"), times=5) == (False, 1)
    assert compare(ErrorCode.offset_out_of_range, times=5) == (False, 5)
    monkeypatch.setattr(agreement_module, "TRY_AGAIN_S", 0.0)
    assert compare(PeerError("gone"), times=5) == (False, 5)
