from __future__ import annotations

from pathlib import Path

from penstock.config import NodeConfig
from penstock.metadata.broker_configs import (
    BROKER_CONFIGS,
    describe_broker,
    describe_cluster_default,
    static_values,
)
from penstock.metadata.config_keys import ConfigSource
from penstock.metadata.config_layers import ConfigLayers
from penstock.metadata.configs import TOPIC_CONFIG_BY_BROKER_NAME
from penstock.metadata.image import ResourceType
from penstock.metadata.records import ConfigRecord
from tests.unit.metadata.builders import apply, cluster


def test_every_broker_config_has_a_value_of_its_type() -> None:
    values = static_values(NodeConfig())
    assert values.keys() == BROKER_CONFIGS.keys()
    for key in BROKER_CONFIGS.values():
        key.parse(values[key.name])


def test_no_name_is_in_both_tables() -> None:
    assert not BROKER_CONFIGS.keys() & TOPIC_CONFIG_BY_BROKER_NAME.keys()


def test_a_broker_shows_what_it_was_told_and_what_was_set() -> None:
    config = NodeConfig(node_id=1, port=19092, data=Path("/somewhere"), auto_create_topics=False)
    image, _ = apply(cluster(), [ConfigRecord(ResourceType.BROKER, "", "log.retention.ms", "5")])
    entries = {
        entry.name: entry
        for entry in describe_broker(image, ConfigLayers(1, {"max.message.bytes": "99"}), config)
    }
    shown = {name: (entries[name].value, entries[name].source, entries[name].read_only) for name in entries}
    assert shown["listeners"] == ("PLAINTEXT://127.0.0.1:19092", ConfigSource.STATIC_BROKER, True)
    assert shown["log.dirs"] == ("/somewhere", ConfigSource.STATIC_BROKER, True)
    assert shown["auto.create.topics.enable"] == ("false", ConfigSource.STATIC_BROKER, True)
    assert shown["num.partitions"] == ("1", ConfigSource.DEFAULT, True)
    assert shown["log.retention.ms"] == ("5", ConfigSource.DYNAMIC_DEFAULT_BROKER, False)
    assert shown["message.max.bytes"] == ("99", ConfigSource.STATIC_BROKER, False)


def test_what_was_set_for_all_brokers() -> None:
    image, _ = apply(cluster(), [ConfigRecord(ResourceType.BROKER, "", "log.retention.ms", "5")])
    (entry,) = describe_cluster_default(image)
    assert (entry.name, entry.value, entry.source) == (
        "log.retention.ms",
        "5",
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
    )
