"""Broker configs, as DescribeConfigs shows them under Kafka's names.

Most are fixed while a node runs: they come from its configuration. Those that are defaults of topic configs
(log.retention.ms and the like) can be set at runtime, for one broker or for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config import NodeConfig
from penstock.metadata.config_keys import ConfigKey, ConfigSource, ConfigType
from penstock.metadata.config_layers import (
    CLUSTER_DEFAULT,
    ConfigEntry,
    ConfigLayers,
    Synonym,
    broker_synonyms,
)
from penstock.metadata.configs import TOPIC_CONFIG_BY_BROKER_NAME
from penstock.metadata.image import MetadataImage, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

REPLICATION_FACTOR_DEFAULT_MAX = 3
"""The default replication factor of topics, where there are that many brokers."""

_TABLE = (
    ConfigKey("node.id", ConfigType.INT, "", "The number of this node."),
    ConfigKey("broker.id", ConfigType.INT, "", "The same as node.id."),
    ConfigKey("broker.rack", ConfigType.STRING, "", "Where the broker stands."),
    ConfigKey("process.roles", ConfigType.LIST, "", "What this node does."),
    ConfigKey("listeners", ConfigType.STRING, "", "The address that the broker listens on."),
    ConfigKey("advertised.listeners", ConfigType.STRING, "", "The address that clients are told."),
    ConfigKey("log.dir", ConfigType.STRING, "", "The data folder."),
    ConfigKey("log.dirs", ConfigType.STRING, "", "The data folder; Penstock keeps one per broker."),
    ConfigKey("auto.create.topics.enable", ConfigType.BOOLEAN, "", "Whether asking for a topic creates it."),
    ConfigKey("delete.topic.enable", ConfigType.BOOLEAN, "", "Whether topics can be deleted."),
    ConfigKey("num.partitions", ConfigType.INT, "", "Partitions of a topic for which none are named."),
    ConfigKey(
        "default.replication.factor", ConfigType.INT, "",
        "Replicas of a topic for which none are named, if there are that many brokers.",
    ),
    ConfigKey("offsets.topic.num.partitions", ConfigType.INT, "", "Partitions of __consumer_offsets."),
    ConfigKey(
        "offsets.retention.minutes", ConfigType.INT, "",
        "How long offsets of a group without members are kept.",
    ),
    ConfigKey("socket.request.max.bytes", ConfigType.INT, "", "The longest request that is read."),
    ConfigKey("connections.max.idle.ms", ConfigType.LONG, "", "When an idle connection is closed."),
    ConfigKey("max.connections", ConfigType.INT, "", "Connections of clients held at once."),
    ConfigKey("max.connections.per.ip", ConfigType.INT, "", "Connections of one address held at once."),
    ConfigKey("fetch.max.bytes", ConfigType.INT, "", "The most bytes that one fetch returns."),
    ConfigKey("log.level", ConfigType.STRING, "", "The least severity that is logged."),
)  # fmt: skip

BROKER_CONFIGS: Mapping[str, ConfigKey] = {key.name: key for key in _TABLE}


def static_values(config: NodeConfig) -> dict[str, str]:
    host, port = config.advertised_host or config.host, config.advertised_port or config.port
    limits = config.limits
    return {
        "node.id": str(config.node_id),
        "broker.id": str(config.node_id),
        "broker.rack": config.rack or "",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{config.host}:{config.port}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "log.dir": str(config.data),
        "log.dirs": str(config.data),
        "auto.create.topics.enable": str(config.auto_create_topics).lower(),
        "delete.topic.enable": "true",
        "num.partitions": config.topic_defaults.get("num.partitions", "1"),
        "default.replication.factor": config.topic_defaults.get(
            "default.replication.factor", str(REPLICATION_FACTOR_DEFAULT_MAX)
        ),
        "offsets.topic.num.partitions": str(config.offsets_topic_partitions),
        "offsets.retention.minutes": str(config.groups.offsets_retention_ms // 60_000),
        "socket.request.max.bytes": str(limits.frame_bytes_max),
        "connections.max.idle.ms": str(limits.idle_ms_max),
        "max.connections": str(limits.connections_max),
        "max.connections.per.ip": str(limits.connections_per_address_max),
        "fetch.max.bytes": str(limits.fetch_response_bytes_max),
        "log.level": config.log_level,
    }


def describe_broker(image: MetadataImage, layers: ConfigLayers, config: NodeConfig) -> list[ConfigEntry]:
    """All configs of this node."""
    values, defaults = static_values(config), static_values(NodeConfig())
    entries = []
    for key in _TABLE:
        synonyms = [Synonym(key.name, defaults[key.name], ConfigSource.DEFAULT)]
        if values[key.name] != defaults[key.name]:
            synonyms.insert(0, Synonym(key.name, values[key.name], ConfigSource.STATIC_BROKER))
        entries.append(ConfigEntry(key, key.name, synonyms, read_only=True))
    defaults_of_topics = layers.defaults(image)
    for name, key in TOPIC_CONFIG_BY_BROKER_NAME.items():
        synonyms = broker_synonyms(key, defaults_of_topics, replication_factor=1)
        entries.append(ConfigEntry(key, name, synonyms, read_only=False))
    return entries


def describe_cluster_default(image: MetadataImage) -> list[ConfigEntry]:
    """What was set at runtime for all brokers."""
    return [
        ConfigEntry(
            TOPIC_CONFIG_BY_BROKER_NAME[name],
            name,
            [Synonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER)],
            read_only=False,
        )
        for name, text in sorted(image.configs(ResourceType.BROKER, CLUSTER_DEFAULT).items())
        if name in TOPIC_CONFIG_BY_BROKER_NAME
    ]
