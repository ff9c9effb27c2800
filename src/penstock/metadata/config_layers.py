"""The layers that a node's configs come from, put together: values in force, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.config_keys import ConfigKey, ConfigSource
from penstock.metadata.configs import (
    TOPIC_CONFIGS,
    TopicConfig,
    default_text,
    effective_topic_config,
    topic_defaults_from_broker,
)
from penstock.metadata.image import MetadataImage, ResourceType, TopicImage
from penstock.metadata.internal_topics import is_coordinators

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLUSTER_DEFAULT = ""
"""The broker resource that stands for all brokers."""


class Layer(NamedTuple):
    source: ConfigSource
    values: Mapping[str, str]  # by the topic's names


class Synonym(NamedTuple):
    name: str
    value: str
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config as DescribeConfigs shows it. The first synonym is the value in force."""

    key: ConfigKey
    name: str
    synonyms: Sequence[Synonym]
    read_only: bool

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source


@dataclass(frozen=True, slots=True)
class _Cached:
    inputs: tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]
    topic: TopicImage
    replication_factor: int
    config: TopicConfig

    def is_from(self, inputs: tuple[Mapping[str, str], ...], replication_factor: int) -> bool:
        # Identity is enough: a batch replaces the overrides that it changes and no others.
        return self.replication_factor == replication_factor and all(
            mine is yours for mine, yours in zip(self.inputs, inputs, strict=True)
        )


class ConfigLayers:
    """The configs of one node. Its owner passes the image of the moment with each question."""

    def __init__(self, node_id: int, static: Mapping[str, str]) -> None:
        self._node = str(node_id)
        self._static = {name: text for name, text in static.items() if name in TOPIC_CONFIGS}
        self._cache: dict[str, _Cached] = {}

    def topic(self, image: MetadataImage, name: str) -> TopicConfig:
        """The values in force for a topic, which need not exist; computed again only after a change."""
        topic = image.topics.get(name)
        cached = self._cache.get(name)
        if cached is not None and cached.topic is topic:
            replication_factor = cached.replication_factor
        else:  # to be counted over all its partitions
            replication_factor = topic.replication_factor if topic is not None else 1
        inputs = (
            image.configs(ResourceType.TOPIC, name),
            image.configs(ResourceType.BROKER, self._node),
            image.configs(ResourceType.BROKER, CLUSTER_DEFAULT),
        )
        if cached is not None and cached.is_from(inputs, replication_factor):
            config = cached.config
        else:
            config = effective_topic_config(
                inputs[0],
                *(layer.values for layer in self.defaults(image)),
                replication_factor=replication_factor,
                internal=is_coordinators(name),
            )
        if topic is not None:
            if len(self._cache) > 2 * len(image.topics) + 100:
                self._cache.clear()  # mostly topics that are gone
            self._cache[name] = _Cached(inputs, topic, replication_factor, config)
        return config

    def defaults(self, image: MetadataImage) -> list[Layer]:
        """What a topic without overrides gets, strongest first; the table's defaults come after these."""
        node = image.configs(ResourceType.BROKER, self._node)
        cluster = image.configs(ResourceType.BROKER, CLUSTER_DEFAULT)
        return [
            Layer(ConfigSource.DYNAMIC_BROKER, topic_defaults_from_broker(node)),
            Layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, topic_defaults_from_broker(cluster)),
            Layer(ConfigSource.STATIC_BROKER, self._static),
        ]

    def describe_topic(
        self, image: MetadataImage, overrides: Mapping[str, str], *, replication_factor: int, internal: bool
    ) -> list[ConfigEntry]:
        """The configs of a topic that has these overrides (and may be about to be created)."""
        layers = self.defaults(image)
        entries = []
        for key in TOPIC_CONFIGS.values():
            synonyms = broker_synonyms(key, layers, replication_factor)
            if key.name in overrides:
                synonyms.insert(0, Synonym(key.name, overrides[key.name], ConfigSource.DYNAMIC_TOPIC))
            if internal and key.name == "flush" and synonyms[0].value != "commit":
                synonyms.insert(0, Synonym("flush", "commit", ConfigSource.STATIC_BROKER))
            entries.append(ConfigEntry(key, key.name, synonyms, read_only=False))
        return entries


def broker_synonyms(key: ConfigKey, layers: Sequence[Layer], replication_factor: int) -> list[Synonym]:
    name = key.broker_name or key.name
    found = [
        Synonym(name, layer.values[key.name], layer.source) for layer in layers if key.name in layer.values
    ]
    return [*found, Synonym(name, default_text(key, replication_factor), ConfigSource.DEFAULT)]
