"""A disk that refuses or hangs takes one replica out of service: two real nodes, whose logs do as told."""

from __future__ import annotations

import asyncio
import errno
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.broker.broker import Broker
from penstock.broker.partitions import Partitions
from penstock.metadata.topics import TopicReference
from penstock.storage import StorageError
from penstock.types import ApiError, ErrorCode
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

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_impatient(monkeypatch)
    monkeypatch.setattr(small_cluster, "QUICK", replace(small_cluster.QUICK, flush_ms_max=300))


def disturb(node: Broker, topic: str, disturbance: Callable[[], None]) -> Callable[[], None]:
    """Before each write of that log; returns what ends it."""
    backend: Any = partition(node, topic).log._backend
    write = backend.write

    def disturbed(*arguments: Any, **options: Any) -> None:
        disturbance()
        write(*arguments, **options)

    backend.write = disturbed

    def end() -> None:
        backend.write = write

    return end


def full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_leader_whose_disk_refuses_hands_over_and_its_node_goes_on() -> None:
    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt", "well")
        await write(cluster.controller, "hurt", b"before")
        end = disturb(cluster.controller, "hurt", full)
        with pytest.raises(ApiError) as refused:
            await write(cluster.controller, "hurt", b"refused")
        assert refused.value.code is ErrorCode.kafka_storage_error
        await eventually(lambda: known(cluster, "hurt").leader == 2)
        assert not cluster.controller.failure.done()
        await write(cluster.controller, "well", b"here")
        await eventually(lambda: partition(cluster.other, "hurt").is_leader)
        await write(cluster.other, "hurt", b"after")
        end()
        await eventually(lambda: set(known(cluster, "hurt").isr) == {1, 2})
        assert known(cluster, "hurt").offline == ()
        ours, theirs = partition(cluster.controller, "hurt").log, partition(cluster.other, "hurt").log
        assert ours.log_end_offset == theirs.log_end_offset == 2
        assert known(cluster, "well").leader == 1

    with_cluster(work)


def test_a_follower_whose_disk_refuses_leaves_the_set_at_once_and_comes_back() -> None:
    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt", "well")
        end = disturb(cluster.other, "hurt", full)
        await write(cluster.controller, "hurt", b"one")  # committed when the follower has left
        assert known(cluster, "hurt").isr == (1,)
        assert known(cluster, "hurt").offline == (2,)
        assert set(known(cluster, "well").isr) == {1, 2}
        end()
        await eventually(lambda: set(known(cluster, "hurt").isr) == {1, 2})
        assert partition(cluster.other, "hurt").log.log_end_offset == 1

    with_cluster(work)


def test_what_a_sync_that_failed_may_have_left_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be read, and need not be on disk: the replica fetches it again."""
    begins_at: list[int] = []
    add = Partitions._add

    def watched(self: Partitions, where: Any, topic: Any, image: Any, opened: Any, config: Any) -> None:
        begins_at.append(opened.log_end_offset)
        add(self, where, topic, image, opened, config)

    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt")
        monkeypatch.setattr(Partitions, "_add", watched)
        backend: Any = partition(cluster.other, "hurt").log._backend
        write_all = backend.write

        def written_and_not_synced(runs: Any, *arguments: Any, **options: Any) -> None:
            backend.write = write_all
            write_all(runs, *arguments, **options)
            backend.written(runs)
            raise OSError(errno.EIO, "Input/output error")

        backend.write = written_and_not_synced
        await write(cluster.controller, "hurt", b"one")
        await eventually(lambda: begins_at == [0])
        await eventually(lambda: set(known(cluster, "hurt").isr) == {1, 2})
        assert partition(cluster.other, "hurt").log.log_end_offset == 1

    with_cluster(work)


def test_a_log_stays_as_it_is_until_the_controller_knows() -> None:
    """What the leader was told of this replica counts until then."""

    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt")
        node = cluster.other
        node.lifecycle._offline = frozenset
        hurt = partition(node, "hurt")
        hurt.give_up("nobody hears of it")
        await node.partitions.open_failed()
        assert partition(node, "hurt") is hurt
        assert known(cluster, "hurt").offline == ()

    with_cluster(work)


def test_a_flush_that_never_returns_takes_one_leader_out_of_service() -> None:
    released = threading.Event()

    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, *(f"hurt-{number}" for number in range(5)), "well")
        hurt = [f"hurt-{number}" for number in range(5)]  # more than there are writer threads
        for topic in hurt:
            disturb(cluster.controller, topic, lambda: released.wait(20.0) and None)
        writing = [asyncio.ensure_future(write(cluster.controller, topic, b"stuck")) for topic in hurt]
        for outcome in await asyncio.gather(*writing, return_exceptions=True):
            assert isinstance(outcome, ApiError)
        for topic in hurt:
            await eventually(lambda topic=topic: known(cluster, topic).leader == 2)  # type: ignore[misc]
        await write(cluster.controller, "well", b"goes on")
        for topic in hurt:
            await eventually(lambda topic=topic: partition(cluster.other, topic).is_leader)  # type: ignore[misc]
            await write(cluster.other, topic, b"goes on")
        # Metadata that concerns the stuck one are carried out, too.
        await cluster.controller.controller.delete_topics([TopicReference(hurt[0])])
        await create(cluster, "new")
        released.set()
        for topic in hurt[1:]:
            await eventually(lambda topic=topic: set(known(cluster, topic).isr) == {1, 2})  # type: ignore[misc]
            ours, theirs = partition(cluster.controller, topic).log, partition(cluster.other, topic).log
            await eventually(lambda a=ours, b=theirs: a.log_end_offset == b.log_end_offset == 1)  # type: ignore[misc]

    try:
        with_cluster(work)
    finally:
        released.set()


def test_a_node_stops_although_a_flush_never_returns() -> None:
    released = threading.Event()

    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt")
        disturb(cluster.other, "hurt", lambda: released.wait(20.0) and None)
        await write(cluster.controller, "hurt", b"one")
        await eventually(lambda: partition(cluster.other, "hurt").is_busy)
        async with asyncio.timeout(10.0):
            await cluster.other.partitions.close()
        released.set()

    try:
        with_cluster(work)
    finally:
        released.set()


def test_a_follower_that_hangs_does_not_hold_up_others_of_the_same_leader() -> None:
    released = threading.Event()

    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt", "well", minimum=2)
        disturb(cluster.other, "hurt", lambda: released.wait(20.0) and None)
        hanging = asyncio.ensure_future(write(cluster.controller, "hurt", b"waits"))
        for number in range(5):
            await write(cluster.controller, "well", b"%d" % number)
        assert set(known(cluster, "well").isr) == {1, 2}
        released.set()
        await hanging

    try:
        with_cluster(work)
    finally:
        released.set()


@pytest.mark.parametrize("place", ["leader", "follower"])
@pytest.mark.parametrize("minimum", [1, 2])
def test_a_log_that_cannot_be_mended_is_set_aside_and_filled_anew(
    place: str, minimum: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt", minimum=minimum)
        for number in range(3):
            await write(cluster.controller, "hurt", b"%d" % number)
        node = cluster.controller if place == "leader" else cluster.other
        hurt = partition(node, "hurt")
        await eventually(lambda: hurt.log.log_end_offset == 3)
        await node.damaged_logs.add("hurt-0", hurt.topic_id, "offset 1 is damaged")
        hurt.give_up("offset 1 is damaged")
        await eventually(lambda: known(cluster, "hurt").offline == (node.config.node_id,))
        await eventually(lambda: set(known(cluster, "hurt").isr) == {1, 2})
        assert partition(node, "hurt").log is not hurt.log
        assert partition(node, "hurt").log.log_end_offset == 3
        assert node.damaged_logs.maybe_reason("hurt-0", hurt.topic_id) is None

    with_cluster(work)
    assert "hurt-0 is filled anew by its leader" in caplog.text


def test_what_cannot_be_opened_at_the_start_is_left_to_the_others_before_the_node_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt", "well", first=2, minimum=2)
        await cluster.other.stop()
        storage = cluster.other.storage
        open_log = storage.open_log

        def refuse_one(name: str, *arguments: Any, **options: Any) -> Any:
            if name == "hurt-0":
                raise StorageError("cannot open hurt-0: No space left on device")
            return open_log(name, *arguments, **options)

        monkeypatch.setattr(storage, "open_log", refuse_one)
        cluster.other = Broker(cluster.other.config, storage)
        await cluster.other.start()
        assert list(cluster.other.lost_replicas.found) == ["hurt-0"]
        assert known(cluster, "hurt").isr == (1,)
        monkeypatch.undo()

    with_cluster(work)


def test_the_last_in_sync_replica_stays_the_leader_and_serves_what_it_has() -> None:
    async def work(cluster: SmallCluster, _: InProcess) -> None:
        await create(cluster, "hurt")
        await write(cluster.controller, "hurt", b"before")
        both = [disturb(node, "hurt", full) for node in (cluster.other, cluster.controller)]
        with pytest.raises(ApiError):
            await write(cluster.controller, "hurt", b"refused")
        await eventually(lambda: 1 in known(cluster, "hurt").offline)
        leader = known(cluster, "hurt").leader
        serving = cluster.controller if leader == 1 else cluster.other
        assert leader in known(cluster, "hurt").isr
        log = partition(serving, "hurt").log
        assert len(log.read(0, 1_000, end_offset=1)) > 0
        for end in both:
            end()

    with_cluster(work)
