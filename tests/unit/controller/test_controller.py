from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from penstock.config import ClusterLimits, NodeConfig
from penstock.controller import controller as controller_module
from penstock.controller import quorum_driver
from penstock.controller.controller import Controller
from penstock.controller.metadata_log import METADATA_LOG, METADATA_TOPIC_ID, MetadataLog
from penstock.controller.producer_ids import ProducerIds
from penstock.metadata.alterations import Alteration, Operation, ResourceAlteration
from penstock.metadata.assignments import NewPartitions, NewTopic
from penstock.metadata.brokers import Registration
from penstock.metadata.events import EventKind
from penstock.metadata.image import ConfigResource, MetadataDelta, MetadataImage, ResourceType
from penstock.metadata.topics import TopicReference
from penstock.peers.peers import Peers
from penstock.quorum.core import Quorum
from penstock.quorum.voters import VoterSet
from penstock.storage import (
    FileStorage,
    FlushJob,
    LogConfig,
    MemoryStorage,
    PartitionLog,
    Storage,
    StorageError,
)
from penstock.types import ApiError, ErrorCode
from penstock.wire.batch import read_header
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import eventually

NOW_MS = 1_700_000_000_000
TOPIC_A = ConfigResource(ResourceType.TOPIC, "a")


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = MemoryStorage(UUID(int=7), node_id=1, cluster_id="c")
    yield storage
    storage.close()


def controller_on(storage: Storage, config: NodeConfig | None = None) -> Controller:
    return Controller(
        storage,
        config or NodeConfig(),
        Peers("test", lambda _: None),
        now_ms=lambda: NOW_MS,
        new_cluster_id=lambda: "c",
        on_failure=lambda _: None,
    )


async def start(controller: Controller, config: NodeConfig) -> None:
    """As a broker does that is alone."""
    await controller.start()
    await controller.register_alone(config.advertised_host or config.host, config.port)
    await controller.begin(ready)


async def ready(_image: MetadataImage) -> None:
    pass


def with_controller(
    storage: Storage, work: Callable[[Controller], Awaitable[object]], config: NodeConfig | None = None
) -> Controller:
    """Run `work` on a started controller, then stop it; its last image can be looked at."""

    async def run() -> Controller:
        controller = controller_on(storage, config)
        try:
            await start(controller, config or NodeConfig())
            await work(controller)
        finally:
            await controller.stop()
        return controller

    return asyncio.run(run())


async def nothing(_controller: Controller) -> None:
    pass


def test_a_node_registers_itself(storage: Storage) -> None:
    controller = with_controller(storage, nothing, NodeConfig(advertised_host="example.org", rack="r1"))
    (broker,) = controller.image.live_brokers()
    assert (broker.id, broker.host, broker.port, broker.rack) == (1, "example.org", 9092, "r1")
    assert broker.storage_id == storage.storage_id


def test_everything_is_there_after_a_restart(storage: Storage) -> None:
    async def work(controller: Controller) -> None:
        await controller.create_topics([NewTopic("a", 2, configs=[("flush", "os")]), NewTopic("b")])
        await controller.create_partitions([NewPartitions("a", 3)])
        await controller.delete_topics([TopicReference("b")])
        set_retention = Alteration("retention.ms", Operation.SET, "5")
        await controller.incremental_alter_configs([ResourceAlteration(TOPIC_A, [set_retention])])
        await controller.allocate_producer_ids(1, 1000)

    before = with_controller(storage, work).image
    after = with_controller(storage, nothing).image
    assert list(after.topics) == ["a"]
    assert after.topics["a"].topic_id == before.topics["a"].topic_id
    assert len(after.topics["a"].partitions) == 3
    assert after.configs(*TOPIC_A) == {"flush": "os", "retention.ms": "5"}
    assert after.next_producer_id == 1000


def test_each_start_is_a_new_incarnation_with_new_epochs(storage: Storage) -> None:
    async def work(controller: Controller) -> None:
        await controller.create_topics([NewTopic("a", 2)])

    images = [with_controller(storage, each).image for each in (work, nothing, nothing)]
    assert [image.topics["a"].partitions[1].leader_epoch for image in images] == [0, 1, 2]
    assert len({image.brokers[1].incarnation for image in images}) == 3
    epochs = [image.brokers[1].epoch for image in images]
    assert epochs == sorted(set(epochs))


def test_the_only_node_of_a_cluster_is_not_fenced_for_being_silent(storage: Storage) -> None:
    """It sends itself no heartbeats, and its advertised name need not lead back to it."""
    config = NodeConfig(advertised_host="no.such.host.invalid", cluster=ClusterLimits(broker_session_ms=100))
    with_controller(storage, nothing, config)

    async def outlive_a_session(controller: Controller) -> None:
        await asyncio.sleep(0.4)
        assert not controller.image.brokers[1].fenced
        kinds = [each.event.kind for each in controller.publisher.events]
        assert EventKind.BROKER_FENCED not in kinds

    with_controller(storage, outlive_a_session, config)


def test_of_many_who_create_one_topic_one_wins(storage: Storage) -> None:
    errors: list[ErrorCode | None] = []

    async def work(controller: Controller) -> None:
        outcomes = await asyncio.gather(*(controller.create_topics([NewTopic("a")]) for _ in range(20)))
        errors.extend(each.error.code if each.error else None for (each,) in outcomes)

    with_controller(storage, work)
    assert Counter(errors) == {None: 1, ErrorCode.topic_already_exists: 19}


@pytest.mark.parametrize(("grace_s", "is_created"), [(60.0, False), (0.0, True)])
def test_an_internal_topic_waits_for_a_broker_that_is_away_but_not_for_ever(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, grace_s: float, is_created: bool
) -> None:
    monkeypatch.setattr(controller_module, "INTERNAL_TOPIC_GRACE_S", grace_s)

    async def work(controller: Controller) -> None:
        away = Registration(2, UUID(int=22), UUID(int=2), "localhost", 9093)
        await controller.active.register(away)
        wanted = [NewTopic("__consumer_offsets")]
        (first,) = await controller.create_topics(wanted, allow_internal=True)
        assert first.error is not None
        assert first.error.code is ErrorCode.coordinator_not_available
        (again,) = await controller.create_topics(wanted, allow_internal=True)
        assert (again.error is None) == is_created

    topics = with_controller(storage, work).image.topics
    assert ("__consumer_offsets" in topics) == is_created


def test_validation_writes_nothing(storage: Storage) -> None:
    async def work(controller: Controller) -> None:
        image = controller.image
        (outcome,) = await controller.create_topics([NewTopic("a", 3)], validate_only=True)
        assert (outcome.error, outcome.partitions) == (None, 3)
        assert controller.image is image

    assert with_controller(storage, work).image.topics == {}


def test_subscribers_hear_of_a_change_before_it_is_answered(storage: Storage) -> None:
    heard: list[MetadataDelta] = []

    async def slow(delta: MetadataDelta) -> None:
        await asyncio.sleep(0)
        heard.append(delta)

    async def work(controller: Controller) -> None:
        controller.subscribe(slow)
        controller.subscribe(heard.append)
        await controller.create_topics([NewTopic("a")])
        assert [list(delta.created) for delta in heard] == [["a"], ["a"]]
        await controller.create_topics([NewTopic("a")])
        assert len(heard) == 2
        await controller.delete_topics([TopicReference("a")])
        assert list(heard[-1].deleted) == ["a"]

    with_controller(storage, work)


def test_a_change_is_finished_although_its_client_went_away(storage: Storage) -> None:
    async def work(controller: Controller) -> None:
        request = asyncio.create_task(controller.create_topics([NewTopic("a")]))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        (outcome,) = await controller.create_topics([NewTopic("b")])
        assert outcome.error is None

    assert list(with_controller(storage, work).image.topics) == ["a", "b"]


def test_a_node_flushing_through_the_system_still_commits_internal_topics(storage: Storage) -> None:
    async def work(controller: Controller) -> None:
        internal = NewTopic("__consumer_offsets", 1, configs=[("cleanup.policy", "compact")])
        await controller.create_topics([internal], allow_internal=True)
        await controller.create_topics([NewTopic("a")])
        assert controller.topic_config("__consumer_offsets").flush == "commit"
        assert controller.topic_config("a").flush == "os"

    with_controller(storage, work, NodeConfig(flush="os"))


def test_defaults_from_the_nodes_table(storage: Storage) -> None:
    async def work(controller: Controller) -> None:
        (outcome,) = await controller.create_topics([NewTopic("a")])
        assert outcome.partitions == 3
        assert controller.topic_config("a").retention_ms == 9

    with_controller(storage, work, NodeConfig(topic_defaults={"num.partitions": "3", "retention.ms": "9"}))


def test_a_wrong_table_of_defaults_is_refused_at_the_start(storage: Storage) -> None:
    with pytest.raises(ApiError, match="Unknown topic config name: retain"):
        controller_on(storage, NodeConfig(topic_defaults={"retain": "9"}))


def producer_ids(controller: Controller) -> ProducerIds:
    return ProducerIds(lambda count: controller.allocate_producer_ids(1, count))


def test_producer_ids_are_never_given_twice(storage: Storage) -> None:
    given: list[int] = []

    async def work(controller: Controller) -> None:
        ids = producer_ids(controller)
        given.extend(await asyncio.gather(*(ids.next() for _ in range(1500))))

    with_controller(storage, work)
    with_controller(storage, work)
    assert len(set(given)) == 3000


def test_a_block_of_producer_ids_is_durable_before_it_is_used(storage: Storage) -> None:
    async def work(controller: Controller) -> None:
        found = await producer_ids(controller).next()
        assert found < controller.image.next_producer_id

    assert with_controller(storage, work).image.next_producer_id == 1000


def test_after_its_end_a_controller_refuses(storage: Storage) -> None:
    controller = with_controller(storage, nothing)
    with pytest.raises(ApiError, match="not running"):
        asyncio.run(controller.create_topics([NewTopic("a")]))


def test_a_disk_that_fails_changes_nothing(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(controller: Controller) -> None:
        def refuse(*_arguments: object, **_named: object) -> int:
            raise StorageError("cannot write: No space left on device")

        monkeypatch.setattr(PartitionLog, "append", refuse)
        with pytest.raises(ApiError, match="No space left") as failure:
            await controller.create_topics([NewTopic("a")])
        assert failure.value.code is ErrorCode.kafka_storage_error
        assert controller.image.topics == {}

    with_controller(storage, work)
    assert "No space left" in caplog.text


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_note_that_cannot_be_written_is_written_later(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, is_alone: bool
) -> None:
    """A database that is away for a moment does not end the node; one that is alone needs no note."""
    monkeypatch.setattr(quorum_driver, "NOTE_S", 0.001)
    tried: list[int] = []

    def note(_log: MetadataLog, offset: int) -> None:
        tried.append(offset)
        if len(tried) < 4:
            raise StorageError("connection refused")

    async def work(controller: Controller) -> None:
        monkeypatch.setattr(MetadataLog, "note_high_watermark", note)
        if not is_alone:
            monkeypatch.setattr(controller._driver, "_configured", VoterSet.of_ids((1, 2)))
        await controller.create_topics([NewTopic("a")])
        await eventually(lambda: is_alone or len(tried) >= 4)
        await controller.create_topics([NewTopic("b")])

    assert set(with_controller(storage, work).image.topics) == {"a", "b"}
    assert bool(tried) == (not is_alone)


def test_what_was_noted_as_committed_is_known_after_a_restart(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anybody leads: who leads then, with a log that lacks it, is not followed backwards."""
    several = VoterSet.of_ids((1, 2))

    async def work(controller: Controller) -> None:
        monkeypatch.setattr(controller._driver, "_configured", several)
        await controller.create_topics([NewTopic("a")])

    committed = with_controller(storage, work).driver.core.high_watermark
    told: list[int] = []
    monkeypatch.setattr(Quorum, "noted", lambda _core, offset: told.append(offset))
    with_controller(storage, nothing)
    assert told == [committed]


def test_what_could_not_be_flushed_is_never_seen(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(controller: Controller) -> None:
        def fail(job: FlushJob) -> None:
            job.error = StorageError("cannot sync: Input/output error")

        monkeypatch.setattr(FlushJob, "run", fail)
        with pytest.raises(ApiError, match="Input/output error"):
            await controller.create_topics([NewTopic("a")])
        monkeypatch.undo()
        with pytest.raises(ApiError, match="Input/output error"):
            await controller.create_topics([NewTopic("b")])
        assert controller.image.topics == {}

    with_controller(storage, work)


def test_a_subscriber_that_cannot_follow_is_reported(storage: Storage) -> None:
    def refuse(_delta: MetadataDelta) -> None:
        raise StorageError("cannot create a-0: Too many open files")

    async def work(controller: Controller) -> None:
        controller.subscribe(refuse)
        with pytest.raises(ApiError, match="Too many open files") as failure:
            await controller.create_topics([NewTopic("a")])
        assert failure.value.code is ErrorCode.kafka_storage_error

    assert list(with_controller(storage, work).image.topics) == ["a"]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (b"nonsense", "not a metadata record"),
        (b'{"type":"Teapot","version":0}', "unknown metadata record type 'Teapot'"),
        (b'{"type":"Topic","version":9}', "Topic has version 9"),
        (b'{"type":"FeatureLevel","version":0,"name":"metadata.version","level":2}', "metadata.version 2"),
    ],
)
def test_a_log_that_makes_no_sense_stops_the_start(storage: Storage, value: bytes, line: str) -> None:
    log = storage.open_log(METADATA_LOG, METADATA_TOPIC_ID, LogConfig(), NOW_MS)
    batch = encode_batch([Record(0, NOW_MS, None, value)])
    log.append(batch, read_header(batch), leader_epoch=0, now_ms=NOW_MS)
    log.close()
    with pytest.raises(StorageError, match=line) as failure:
        with_controller(storage, nothing)
    assert "batch at offset 0" in str(failure.value)


def test_what_was_answered_is_on_disk(tmp_path: Path) -> None:
    async def answered(controller: Controller) -> None:
        await controller.create_topics([NewTopic("a", 1000)])
        # A copy of the folder is what a crash at this moment leaves.
        shutil.copytree(tmp_path / "node", tmp_path / "copy")

    storage = FileStorage.open(tmp_path / "node", 1)
    with_controller(storage, answered)
    storage.close()
    (tmp_path / "copy" / ".lock").unlink()
    storage = FileStorage.open(tmp_path / "copy", 1)
    image = with_controller(storage, nothing).image
    storage.close()
    assert len(image.topics["a"].partitions) == 1000
    assert {each.leader_epoch for each in image.topics["a"].partitions.values()} == {1}
