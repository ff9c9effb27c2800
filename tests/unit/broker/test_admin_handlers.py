"""The admin APIs against a whole broker in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from penstock.types import ErrorCode
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import InProcess, begin_epoch, with_broker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

PRODUCE, LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = 0, 2, 3, 19, 20, 21
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS, ALTER_CONFIGS = 22, 23, 32, 33
DESCRIBE_LOG_DIRS, CREATE_PARTITIONS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS = 35, 37, 43, 44
ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS = 45, 46, 60, 61
ADD_PARTITIONS_TO_TXN = 24
TOPIC, BROKER = 2, 4
OK = ErrorCode.none


async def create(broker: InProcess, name: str, version: int = 7, **topic: Any) -> Any:
    defaults = {"name": name, "num_partitions": -1, "replication_factor": -1}
    response = await broker.ask(CREATE_TOPICS, version, {"topics": [defaults | topic]})
    return response.topics[0]


async def produce(broker: InProcess, topic: str, *timestamps: int, partition: int = 0, **batch: int) -> None:
    records = [Record(index, each, b"k", b"v") for index, each in enumerate(timestamps)]
    data = {"index": partition, "records": encode_batch(records, **batch)}
    body = {"acks": -1, "topic_data": [{"name": topic, "partition_data": [data]}]}
    response = await broker.ask(PRODUCE, 9, body)
    assert response.responses[0].partition_responses[0].error_code is OK


def run(work: Callable[[InProcess], Awaitable[None]], **config: Any) -> None:
    with_broker(work, **config)


# Topics


def test_a_topic_is_the_same_in_every_answer() -> None:
    async def work(broker: InProcess) -> None:
        created = await create(broker, "a", num_partitions=2)
        assert (created.error_code, created.num_partitions, created.replication_factor) == (OK, 2, 1)
        configs = {config.name: config for config in created.configs}
        assert configs["retention.ms"].value == "604800000"
        assert configs["retention.ms"].config_source == 5
        listed = (await broker.ask(METADATA, 12, {"topics": [{"name": "a"}]})).topics[0]
        assert listed.topic_id == created.topic_id
        assert [each.partition_index for each in listed.partitions] == [0, 1]
        by_id = {"topics": [{"name": None, "topic_id": created.topic_id}]}
        assert (await broker.ask(METADATA, 12, by_id)).topics[0].name == "a"
        (deleted,) = (await broker.ask(DELETE_TOPICS, 6, by_id)).responses
        assert (deleted.error_code, deleted.name, deleted.topic_id) == (OK, "a", created.topic_id)
        assert broker.broker.partitions.get("a", 0) is None

    run(work)


def test_a_topic_created_again_is_another() -> None:
    async def work(broker: InProcess) -> None:
        first = await create(broker, "a")
        await produce(broker, "a", 1, 2)
        await broker.ask(DELETE_TOPICS, 5, {"topic_names": ["a"]})
        second = await create(broker, "a")
        assert second.topic_id != first.topic_id
        assert broker.broker.partitions.require("a", 0).log.log_end_offset == 0

    run(work)


def test_errors_of_creation_come_with_a_message() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        again = await create(broker, "a", version=4)
        assert (again.error_code, again.error_message) == (
            ErrorCode.topic_already_exists,
            "Topic 'a' already exists.",
        )
        wide = await create(broker, "b", replication_factor=3)
        assert wide.error_code is ErrorCode.invalid_replication_factor
        wrong = await create(broker, "b", configs=[{"name": "retention.ms", "value": "x"}])
        assert wrong.error_code is ErrorCode.invalid_config

    run(work)


def test_validation_creates_nothing() -> None:
    async def work(broker: InProcess) -> None:
        topic = {"name": "a", "num_partitions": 3, "replication_factor": 1}
        response = await broker.ask(CREATE_TOPICS, 7, {"topics": [topic], "validate_only": True})
        assert (response.topics[0].error_code, response.topics[0].num_partitions) == (OK, 3)
        assert broker.broker.controller.image.topics == {}

    run(work)


def test_concurrent_creations_have_one_winner() -> None:
    async def work(broker: InProcess) -> None:
        answers = await asyncio.gather(*(create(broker, "a") for _ in range(10)))
        codes = [answer.error_code for answer in answers]
        assert codes.count(OK) == 1
        assert codes.count(ErrorCode.topic_already_exists) == 9

    run(work)


@pytest.mark.parametrize("version", range(1, 7))
def test_deletion_in_every_version(version: int) -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        body = {"topic_names": ["a", "b"], "topics": [{"name": "a"}, {"name": "b"}]}
        response = await broker.ask(DELETE_TOPICS, version, body)
        assert [each.error_code for each in response.responses] == [OK, ErrorCode.unknown_topic_or_partition]

    run(work)


def test_deleting_by_an_unknown_id() -> None:
    async def work(broker: InProcess) -> None:
        body = {"topics": [{"name": None, "topic_id": UUID(int=5)}]}
        (answer,) = (await broker.ask(DELETE_TOPICS, 6, body)).responses
        assert answer.error_code is ErrorCode.unknown_topic_id

    run(work)


def test_more_partitions_can_be_written_to() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        wanted = [
            {"name": "a", "count": 3, "assignments": None},
            {"name": "x", "count": 3, "assignments": None},
        ]
        response = await broker.ask(CREATE_PARTITIONS, 3, {"topics": wanted})
        assert [each.error_code for each in response.results] == [OK, ErrorCode.unknown_topic_or_partition]
        await produce(broker, "a", 1, partition=2)

    run(work)


# Metadata


@pytest.mark.parametrize("version", range(13))
def test_which_topics_are_meant(version: int) -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        await create(broker, "b")
        everything = () if version == 0 else None
        response = await broker.ask(METADATA, version, {"topics": everything})
        assert [topic.name for topic in response.topics] == ["a", "b"]
        assert [each.node_id for each in response.brokers] == [1]
        if version >= 1:
            assert response.controller_id == 1
            assert (await broker.ask(METADATA, version, {"topics": ()})).topics == ()
        if version >= 2:
            assert response.cluster_id == "test-cluster"
        (partition,) = response.topics[0].partitions
        assert (partition.error_code, partition.leader_id, partition.replica_nodes) == (OK, 1, (1,))
        if version >= 7:
            assert partition.leader_epoch == 0

    run(work)


@pytest.mark.parametrize(
    ("version", "in_request", "in_config", "created"),
    [(1, False, True, True), (4, True, True, True), (4, False, True, False), (12, True, False, False)],
)
def test_topics_are_created_when_both_sides_allow_it(
    version: int, in_request: bool, in_config: bool, created: bool
) -> None:
    async def work(broker: InProcess) -> None:
        body = {"topics": [{"name": "new"}], "allow_auto_topic_creation": in_request}
        (topic,) = (await broker.ask(METADATA, version, body)).topics
        if created:
            assert (topic.error_code, len(topic.partitions)) == (OK, 1)
            await produce(broker, "new", 1)
        else:
            assert topic.error_code is ErrorCode.unknown_topic_or_partition

    run(work, auto_create_topics=in_config)


def test_topics_that_cannot_be() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a.b")
        names = ["a b", "", "a_b", "__consumer_offsets"]
        body = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": True}
        response = await broker.ask(METADATA, 9, body)
        assert [topic.error_code for topic in response.topics] == [
            ErrorCode.invalid_topic_exception,
            ErrorCode.invalid_topic_exception,
            ErrorCode.invalid_topic_exception,
            ErrorCode.unknown_topic_or_partition,
        ]
        unknown = {"topics": [{"name": None, "topic_id": UUID(int=5)}]}
        (topic,) = (await broker.ask(METADATA, 12, unknown)).topics
        assert (topic.error_code, topic.topic_id) == (ErrorCode.unknown_topic_id, UUID(int=5))

    run(work)


def test_authorized_operations_are_given_when_asked_for() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        plain = (await broker.ask(METADATA, 12, {"topics": None})).topics[0]
        assert plain.topic_authorized_operations == -(2**31)
        body = {"topics": None, "include_topic_authorized_operations": True}
        asked = (await broker.ask(METADATA, 12, body)).topics[0]
        assert asked.topic_authorized_operations == 3576
        for version in (8, 9, 10):
            body = {"topics": (), "include_cluster_authorized_operations": True}
            assert (await broker.ask(METADATA, version, body)).cluster_authorized_operations == 8096
        cluster = await broker.ask(DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": True})
        assert cluster.cluster_authorized_operations == 8096

    run(work)


def test_internal_topics_are_marked() -> None:
    async def work(broker: InProcess) -> None:
        await broker.broker.channel.ensure_internal_topic(
            "__consumer_offsets", 2, {"cleanup.policy": "compact"}
        )
        (topic,) = (await broker.ask(METADATA, 12, {"topics": None})).topics
        assert (topic.name, topic.is_internal) == ("__consumer_offsets", True)
        body = {"topic_names": ["__consumer_offsets"]}
        (answer,) = (await broker.ask(DELETE_TOPICS, 5, body)).responses
        assert answer.error_code is ErrorCode.invalid_topic_exception

    run(work)


def test_topics_of_the_gateway_are_internal() -> None:
    """The gateway creates and writes them as any client; what it never does is refused to all."""

    async def work(broker: InProcess) -> None:
        asked = {"topics": [{"name": "__penstock_ids"}], "allow_auto_topic_creation": True}
        (topic,) = (await broker.ask(METADATA, 12, asked)).topics
        assert topic.error_code is ErrorCode.unknown_topic_or_partition, "not with a user's settings"
        assert (await create(broker, "__penstock_ids", num_partitions=1)).error_code is OK
        (topic,) = (await broker.ask(METADATA, 12, asked)).topics
        assert topic.is_internal
        await produce(broker, "__penstock_ids", 1)
        (answer,) = (await broker.ask(DELETE_TOPICS, 5, {"topic_names": ["__penstock_ids"]})).responses
        assert answer.error_code is ErrorCode.invalid_topic_exception
        added = {
            "v3_and_below_transactional_id": "a stranger's",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "__penstock_ids", "partitions": [0]}],
        }
        (refused,) = (await broker.ask(ADD_PARTITIONS_TO_TXN, 3, added)).results_by_topic_v3_and_below
        (partition,) = refused.results_by_partition
        assert partition.partition_error_code is ErrorCode.topic_authorization_failed

    run(work)


def test_the_cluster_describes_itself() -> None:
    async def work(broker: InProcess) -> None:
        response = await broker.ask(DESCRIBE_CLUSTER, 0, {})
        assert (response.cluster_id, response.controller_id) == ("test-cluster", 1)
        assert [(each.broker_id, each.port) for each in response.brokers] == [(1, broker.broker.port)]
        other = await broker.ask(DESCRIBE_CLUSTER, 1, {"endpoint_type": 2})
        assert other.error_code is ErrorCode.mismatched_endpoint_type

    run(work)


# Configs


async def describe(broker: InProcess, resource_type: int, name: str, **options: Any) -> Any:
    keys = options.pop("keys", None)
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
    (result,) = (await broker.ask(DESCRIBE_CONFIGS, 4, {"resources": [resource], **options})).results
    return result


async def alter(
    broker: InProcess, resource_type: int, name: str, *configs: tuple[str, int, str | None]
) -> Any:
    entries = [
        {"name": config, "config_operation": operation, "value": value}
        for config, operation, value in configs
    ]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": entries}
    (result,) = (await broker.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})).responses
    return result


def test_a_config_is_set_described_and_in_force() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        assert (await alter(broker, TOPIC, "a", ("retention.ms", 0, "5"))).error_code is OK
        result = await describe(broker, TOPIC, "a", keys=["retention.ms"], include_synonyms=True)
        (config,) = result.configs
        assert (config.value, config.config_source, config.config_type, config.read_only) == (
            "5",
            1,
            5,
            False,
        )
        assert [(each.name, each.source) for each in config.synonyms] == [
            ("retention.ms", 1),
            ("log.retention.ms", 5),
        ]
        assert config.documentation is None
        partition = broker.broker.partitions.require("a", 0)
        assert partition.log.config.retention_ms == 5
        assert (await alter(broker, TOPIC, "a", ("retention.ms", 1, None))).error_code is OK
        assert partition.log.config.retention_ms == 604_800_000

    run(work)


def test_documentation_comes_when_it_is_asked_for() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        result = await describe(broker, TOPIC, "a", include_documentation=True)
        assert all(config.documentation for config in result.configs)
        assert {"cleanup.policy", "flush", "max.message.bytes"} <= {config.name for config in result.configs}

    run(work)


def test_broker_configs_are_described_and_partly_altered() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        values = {config.name: config for config in (await describe(broker, BROKER, "1")).configs}
        assert (values["node.id"].value, values["node.id"].read_only) == ("1", True)
        assert values["message.max.bytes"].value == "1048588"
        assert (await alter(broker, BROKER, "", ("log.retention.ms", 0, "7"))).error_code is OK
        assert broker.broker.partitions.require("a", 0).log.config.retention_ms == 7
        (default,) = (await describe(broker, BROKER, "")).configs
        assert (default.name, default.value, default.config_source) == ("log.retention.ms", "7", 3)
        assert (await alter(broker, BROKER, "1", ("node.id", 0, "2"))).error_code is ErrorCode.invalid_request

    run(work)


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.unknown_topic_or_partition),
        (BROKER, "9", ErrorCode.invalid_request),
        (8, "1", ErrorCode.invalid_request),
    ],
)
def test_configs_of_what_is_not_there(resource_type: int, name: str, code: ErrorCode) -> None:
    async def work(broker: InProcess) -> None:
        assert (await describe(broker, resource_type, name)).error_code is code
        assert (await alter(broker, resource_type, name, ("flush", 0, "os"))).error_code is code

    run(work)


def test_the_old_alter_configs_replaces_all() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a", configs=[{"name": "retention.ms", "value": "5"}])
        resource = {
            "resource_type": TOPIC,
            "resource_name": "a",
            "configs": [{"name": "flush", "value": "os"}],
        }
        (result,) = (await broker.ask(ALTER_CONFIGS, 2, {"resources": [resource]})).responses
        assert result.error_code is OK
        assert broker.broker.controller.image.configs(TOPIC, "a") == {"flush": "os"}

    run(work)


# Offsets


async def offset(
    broker: InProcess, timestamp: int, *, version: int = 7, epoch: int = -1, topic: str = "a"
) -> Any:
    partition = {"partition_index": 0, "current_leader_epoch": epoch, "timestamp": timestamp}
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": [partition]}]}
    response = await broker.ask(LIST_OFFSETS, version, body)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_by_name_and_time(version: int) -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1000, 3000, 2000)
        await produce(broker, "a", 4000)
        found = {each: await offset(broker, each, version=version) for each in (-1, -2, 0, 1001, 4000, 4001)}
        assert {each: answer.offset for each, answer in found.items()} == {
            -1: 4, -2: 0, 0: 0, 1001: 1, 4000: 3, 4001: -1,
        }  # fmt: skip
        assert (found[1001].timestamp, found[4001].timestamp, found[-1].timestamp) == (3000, -1, -1)
        latest = await offset(broker, -3, version=version)
        if version >= 7:
            assert (latest.offset, latest.timestamp) == (3, 4000)
        else:
            assert latest.error_code is ErrorCode.unsupported_version

    run(work)


def test_leader_epochs_are_checked() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        begin_epoch(broker.broker.partitions.require("a", 0), 3)
        codes = [(await offset(broker, -1, epoch=epoch)).error_code for epoch in (-1, 2, 3, 4)]
        assert codes == [OK, ErrorCode.fenced_leader_epoch, OK, ErrorCode.unknown_leader_epoch]
        assert (await offset(broker, -1, topic="x")).error_code is ErrorCode.unknown_topic_or_partition

    run(work)


def test_a_partition_named_twice_is_refused() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        partition = {"partition_index": 0, "timestamp": -1}
        body = {"topics": [{"name": "a", "partitions": [partition, partition]}]}
        response = await broker.ask(LIST_OFFSETS, 7, body)
        codes = [each.error_code for each in response.topics[0].partitions]
        assert codes == [ErrorCode.invalid_request] * 2

    run(work)


def test_where_an_epoch_ends() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1, 2)
        partition = broker.broker.partitions.require("a", 0)
        begin_epoch(partition, 2)
        await produce(broker, "a", 3)
        begin_epoch(partition, 4)

        async def end_of(epoch: int) -> tuple[int, int]:
            wanted = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
            body = {"topics": [{"topic": "a", "partitions": [wanted]}]}
            answer = (await broker.ask(OFFSET_FOR_LEADER_EPOCH, 4, body)).topics[0].partitions[0]
            assert answer.error_code is OK
            return answer.leader_epoch, answer.end_offset

        assert [await end_of(epoch) for epoch in range(6)] == [
            (0, 2),
            (0, 2),
            (2, 3),
            (2, 3),
            (4, 3),
            (-1, -1),
        ]

    run(work)


def test_records_are_deleted_up_to_the_high_watermark() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        await create(broker, "c", configs=[{"name": "cleanup.policy", "value": "compact"}])
        await produce(broker, "a", 1, 2, 3)

        async def delete(topic: str, up_to: int) -> tuple[ErrorCode, int]:
            partition = {"partition_index": 0, "offset": up_to}
            body = {"topics": [{"name": topic, "partitions": [partition]}]}
            answer = (await broker.ask(DELETE_RECORDS, 2, body)).topics[0].partitions[0]
            return answer.error_code, answer.low_watermark

        assert await delete("a", 2) == (OK, 2)
        assert (await offset(broker, -2)).offset == 2
        assert await delete("a", 1) == (OK, 2)
        assert await delete("a", 4) == (ErrorCode.offset_out_of_range, -1)
        assert await delete("a", -5) == (ErrorCode.offset_out_of_range, -1)
        assert await delete("a", -1) == (OK, 3)
        assert await delete("c", -1) == (ErrorCode.policy_violation, -1)
        assert await delete("x", -1) == (ErrorCode.unknown_topic_or_partition, -1)

    run(work)


# Producers


@pytest.mark.parametrize("version", range(5))
def test_each_producer_gets_an_id_of_its_own(version: int) -> None:
    async def work(broker: InProcess) -> None:
        body = {"transactional_id": None}
        answers = [await broker.ask(INIT_PRODUCER_ID, version, body) for _ in range(3)]
        assert [(each.error_code, each.producer_epoch) for each in answers] == [(OK, 0)] * 3
        assert len({each.producer_id for each in answers}) == 3

    run(work)


def test_a_higher_epoch_is_a_new_id() -> None:
    async def work(broker: InProcess) -> None:
        bumped = await broker.ask(INIT_PRODUCER_ID, 4, {"producer_id": 500, "producer_epoch": 3})
        assert (bumped.error_code, bumped.producer_epoch) == (OK, 0)
        assert bumped.producer_id != 500
        half = await broker.ask(INIT_PRODUCER_ID, 4, {"producer_id": 500})
        assert half.error_code is ErrorCode.invalid_request
        empty = await broker.ask(INIT_PRODUCER_ID, 4, {"transactional_id": ""})
        assert empty.error_code is ErrorCode.invalid_request

    run(work)


def test_producers_are_described() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        await produce(broker, "a", 10, 20, producer_id=9, producer_epoch=1, base_sequence=0)
        body = {"topics": [{"name": "a", "partition_indexes": [0, 1]}]}
        known, unknown = (await broker.ask(DESCRIBE_PRODUCERS, 0, body)).topics[0].partitions
        (producer,) = known.active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 1, 1)
        assert producer.last_timestamp == 20
        assert unknown.error_code is ErrorCode.unknown_topic_or_partition

    run(work)


# What a cluster of one has little to do for


def test_elections_are_not_needed() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        body = {"topic_partitions": [{"topic": "a", "partitions": [0, 7]}]}
        response = await broker.ask(ELECT_LEADERS, 2, body)
        results = response.replica_election_results[0].partition_result
        assert [each.error_code for each in results] == [
            ErrorCode.election_not_needed,
            ErrorCode.unknown_topic_or_partition,
        ]
        everything = await broker.ask(ELECT_LEADERS, 2, {"topic_partitions": None})
        assert (everything.error_code, everything.replica_election_results) == (OK, ())
        wrong = await broker.ask(ELECT_LEADERS, 2, {"election_type": 9, "topic_partitions": None})
        assert wrong.error_code is ErrorCode.invalid_request

    run(work)


@pytest.mark.parametrize(
    ("index", "replicas", "code"),
    [
        (0, (1,), OK),
        (0, (2,), ErrorCode.invalid_replica_assignment),
        (0, (), ErrorCode.invalid_replica_assignment),
        (0, None, ErrorCode.no_reassignment_in_progress),
        (5, (1,), ErrorCode.unknown_topic_or_partition),
    ],
)
def test_reassignments(index: int, replicas: tuple[int, ...] | None, code: ErrorCode) -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a")
        partition = {"partition_index": index, "replicas": replicas}
        body = {"topics": [{"name": "a", "partitions": [partition]}]}
        response = await broker.ask(ALTER_REASSIGNMENTS, 0, body)
        assert response.responses[0].partitions[0].error_code is code
        listed = await broker.ask(LIST_REASSIGNMENTS, 0, {"topics": None})
        assert (listed.error_code, listed.topics) == (OK, ())

    run(work)


def test_log_dirs_show_sizes() -> None:
    async def work(broker: InProcess) -> None:
        await create(broker, "a", num_partitions=2)
        await produce(broker, "a", 1)
        (folder,) = (await broker.ask(DESCRIBE_LOG_DIRS, 4, {"topics": None})).results
        sizes = {each.partition_index: each.partition_size for each in folder.topics[0].partitions}
        assert sizes[0] == broker.broker.partitions.require("a", 0).log.size_bytes > 0
        assert sizes[1] == 0
        wanted = {"topics": [{"topic": "a", "partitions": [1, 9]}]}
        (folder,) = (await broker.ask(DESCRIBE_LOG_DIRS, 4, wanted)).results
        assert [each.partition_index for each in folder.topics[0].partitions] == [1]

    run(work)


def test_log_dirs_show_the_disk(tmp_path: Path) -> None:
    async def present(broker: InProcess) -> None:
        (folder,) = (await broker.ask(DESCRIBE_LOG_DIRS, 4, {"topics": None})).results
        assert (folder.error_code, folder.log_dir) == (OK, str(tmp_path))
        assert 0 < folder.usable_bytes <= folder.total_bytes

    async def absent(broker: InProcess) -> None:
        (folder,) = (await broker.ask(DESCRIBE_LOG_DIRS, 4, {"topics": None})).results
        assert folder.error_code is ErrorCode.kafka_storage_error

    run(present, storage="file", data=tmp_path)
    run(absent, storage="file", data=tmp_path / "gone")
