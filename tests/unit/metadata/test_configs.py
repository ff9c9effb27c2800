from __future__ import annotations

import dataclasses
from uuid import UUID

import pytest

from penstock.metadata.config_keys import ConfigSource
from penstock.metadata.config_layers import ConfigLayers
from penstock.metadata.configs import (
    TOPIC_CONFIGS,
    TopicConfig,
    check_node_defaults,
    check_topic_configs,
    effective_topic_config,
)
from penstock.metadata.image import ResourceType
from penstock.metadata.records import ConfigRecord, PartitionChangeRecord
from penstock.types import ApiError, ErrorCode
from tests.unit.metadata.builders import apply, cluster, with_topic


def test_the_typed_form_has_a_field_for_each_config_and_no_other() -> None:
    fields = {field.name for field in dataclasses.fields(TopicConfig)}
    assert fields == {name.replace(".", "_") for name in TOPIC_CONFIGS}


def test_each_default_is_valid_and_each_config_documented() -> None:
    for key in TOPIC_CONFIGS.values():
        key.parse(key.default)
        assert key.doc.endswith(".")


def test_defaults_are_kafkas() -> None:
    config = effective_topic_config({})
    assert config.max_message_bytes == 1_048_588
    assert config.retention_ms == 604_800_000
    assert config.segment_bytes == 1_073_741_824
    assert config.delete
    assert not config.compact
    assert config.flush == "commit"


def test_the_strongest_layer_wins() -> None:
    layers = (
        {"retention.ms": "1"},
        {"retention.ms": "2", "segment.ms": "3"},
        {"segment.ms": "4", "flush": "os"},
    )
    config = effective_topic_config(*layers)
    assert (config.retention_ms, config.segment_ms, config.flush) == (1, 3, "os")


@pytest.mark.parametrize(("replication_factor", "minimum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_the_minimum_in_sync_is_the_majority(replication_factor: int, minimum: int) -> None:
    assert effective_topic_config({}, replication_factor=replication_factor).min_insync_replicas == minimum


def test_a_configured_minimum_is_not_clamped() -> None:
    assert effective_topic_config({"min.insync.replicas": "3"}, replication_factor=1).min_insync_replicas == 3


def test_internal_topics_are_always_flushed() -> None:
    assert effective_topic_config({"flush": "os"}, internal=True).flush == "commit"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("retention.ms", "soon", "Not a number of type LONG"),
        ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("max.message.bytes", "2147483648", "Not a number of type INT"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("cleanup.policy", "compact,compact", "duplicates"),
        ("min.cleanable.dirty.ratio", "1.5", "no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "no more than 1"),
        ("min.cleanable.dirty.ratio", "half", "Not a number of type DOUBLE"),
        ("preallocate", "yes", "either true or false"),
        ("flush", "never", "String must be one of: commit, os"),
        ("message.timestamp.type", "Now", "String must be one of"),
        ("leader.replication.throttled.replicas", "1-2", "must be the literal"),
        ("no.such.config", "1", "Unknown topic config name: no.such.config"),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
    ],
)
def test_wrong_values_are_refused_in_kafkas_words(name: str, text: str | None, line: str) -> None:
    with pytest.raises(ApiError, match=line) as refusal:
        check_topic_configs({name: text})
    assert refusal.value.code is ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("retention.ms", " 5 ", 5),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
        ("leader.replication.throttled.replicas", "*", ("*",)),
    ],
)
def test_values_are_read_as_kafka_reads_them(name: str, text: str, value: object) -> None:
    check_topic_configs({name: text})
    assert getattr(effective_topic_config({name: text}), name.replace(".", "_")) == value


def test_compaction_lags_must_not_cross() -> None:
    with pytest.raises(ApiError, match=r"min.compaction.lag.ms \(9\) > max.compaction.lag.ms \(5\)"):
        check_topic_configs({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"})


def test_a_nodes_table_of_defaults_is_checked() -> None:
    check_node_defaults({"retention.ms": "5", "num.partitions": "4"})
    with pytest.raises(ApiError, match="Unknown topic config name: retain"):
        check_node_defaults({"retain": "5"})
    with pytest.raises(ApiError, match=r"configuration num.partitions: Value must be at least 1"):
        check_node_defaults({"num.partitions": "0"})


def test_layers_of_a_running_node() -> None:
    layers = ConfigLayers(1, {"retention.ms": "100", "segment.ms": "100", "flush": "os"})
    image = with_topic(cluster(), "a", configs={"retention.ms": "1"})
    image, _ = apply(
        image,
        [
            ConfigRecord(ResourceType.BROKER, "1", "log.segment.bytes", "2000"),
            ConfigRecord(ResourceType.BROKER, "", "log.segment.bytes", "3000"),
            ConfigRecord(ResourceType.BROKER, "", "log.roll.ms", "30"),
            ConfigRecord(ResourceType.BROKER, "2", "log.retention.bytes", "5"),
        ],
    )
    config = layers.topic(image, "a")
    assert (config.retention_ms, config.segment_bytes, config.segment_ms) == (1, 2000, 30)
    assert (config.flush, config.retention_bytes) == ("os", -1)


def test_a_config_is_computed_again_only_after_a_change() -> None:
    layers = ConfigLayers(1, {})
    image = with_topic(cluster(), "a")
    first = layers.topic(image, "a")
    other = with_topic(image, "b", topic_id=2, configs={"flush": "os"})
    assert layers.topic(other, "a") is first
    changed, _ = apply(other, [ConfigRecord(ResourceType.TOPIC, "a", "retention.ms", "9")])
    assert layers.topic(changed, "a").retention_ms == 9
    changed, _ = apply(changed, [ConfigRecord(ResourceType.BROKER, "", "log.roll.ms", "7")])
    assert layers.topic(changed, "a").segment_ms == 7


def test_the_default_minimum_follows_the_topics_own_replication_factor() -> None:
    layers = ConfigLayers(1, {})
    image = with_topic(cluster(5), "a", replicas=(1, 2, 3))
    assert layers.topic(image, "a").min_insync_replicas == 2
    image, _ = apply(
        image, [PartitionChangeRecord(UUID(int=1), 0, 1, replicas=(1, 2, 3, 4, 5), adding=(4, 5))]
    )
    assert layers.topic(image, "a").min_insync_replicas == 2  # until they have joined
    image, _ = apply(image, [PartitionChangeRecord(UUID(int=1), 0, 2, isr=(1, 2, 3, 4, 5), adding=())])
    assert layers.topic(image, "a").min_insync_replicas == 3
    assert ConfigLayers(1, {"min.insync.replicas": "1"}).topic(image, "a").min_insync_replicas == 1


def test_a_description_says_where_each_value_comes_from() -> None:
    layers = ConfigLayers(1, {"retention.ms": "100"})
    image, _ = apply(cluster(), [ConfigRecord(ResourceType.BROKER, "", "log.retention.ms", "30")])
    entries = {
        entry.name: entry
        for entry in layers.describe_topic(image, {"retention.ms": "1"}, replication_factor=3, internal=False)
    }
    assert entries["retention.ms"].synonyms == [
        ("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "30", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "100", ConfigSource.STATIC_BROKER),
        ("log.retention.ms", "604800000", ConfigSource.DEFAULT),
    ]
    assert (entries["min.insync.replicas"].value, entries["min.insync.replicas"].source) == (
        "2",
        ConfigSource.DEFAULT,
    )
