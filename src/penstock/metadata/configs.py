"""Topic configs: the table, and the values in force for a topic.

The names, types, defaults and limits are Kafka's. A config that Penstock accepts so that existing tools go
on working, but that changes nothing, says so in its documentation.

A topic's value comes from the first of these layers that has one: set on the topic, set on the broker while
it runs, set for all brokers, in the node's own configuration, the default of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.metadata.config_keys import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    ConfigType,
    at_least,
    between,
    one_of,
    some_of,
    throttled_replicas,
)
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

UNREAD_SINCE = "retention.consumed.unread.since.ms"
SUBSCRIBED, CLOSED = -1, 0
"""Of it, what is no time: see broker/unread_topics.py."""
DAY_MS = 86_400_000
NO_EFFECT = " Accepted for compatibility; without effect in Penstock."

_KEYS = (
    ConfigKey(
        "cleanup.policy", ConfigType.LIST, "delete",
        "What happens to old segments: delete removes them by retention time and size, compact keeps the last"
        " value of each key; both may be given, or none.",
        some_of("compact", "delete"), "log.cleanup.policy",
    ),
    ConfigKey(
        "compression.type", ConfigType.STRING, "producer",
        "Batches are always kept as their producer compressed them, which is what producer means. Other"
        " codecs are accepted for compatibility; without effect in Penstock.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), "compression.type",
    ),
    ConfigKey(
        "delete.retention.ms", ConfigType.LONG, str(DAY_MS),
        "How long compaction keeps the tombstone of a deleted key.",
        at_least(0), "log.cleaner.delete.retention.ms",
    ),
    ConfigKey(
        "file.delete.delay.ms", ConfigType.LONG, "60000",
        "How long a removed segment stays in the file system." + NO_EFFECT,
        at_least(0), "log.segment.delete.delay.ms",
    ),
    ConfigKey(
        "flush", ConfigType.STRING, "commit",
        "What an acknowledgement means: commit, that the data was forced to disk; os, that it was handed to"
        " the operating system. Penstock's own config; internal topics are always commit.",
        one_of("commit", "os"), "flush",
    ),
    ConfigKey(
        "flush.messages", ConfigType.LONG, str(LONG_MAX),
        "Messages between two forced writes; see flush." + NO_EFFECT,
        at_least(1), "log.flush.interval.messages",
    ),
    ConfigKey(
        "flush.ms", ConfigType.LONG, str(LONG_MAX),
        "Time between two forced writes; see flush." + NO_EFFECT,
        at_least(0), "log.flush.interval.ms",
    ),
    ConfigKey(
        "follower.replication.throttled.replicas", ConfigType.LIST, "",
        "Replicas whose replication is throttled on the follower's side." + NO_EFFECT,
        throttled_replicas,
    ),
    ConfigKey(
        "index.interval.bytes", ConfigType.INT, "65536",
        "Bytes of log between two entries of its offset index.",
        at_least(0), "log.index.interval.bytes",
    ),
    ConfigKey(
        "leader.replication.throttled.replicas", ConfigType.LIST, "",
        "Replicas whose replication is throttled on the leader's side." + NO_EFFECT,
        throttled_replicas,
    ),
    ConfigKey(
        "max.compaction.lag.ms", ConfigType.LONG, str(LONG_MAX),
        "The longest time a message stays out of reach of compaction.",
        at_least(1), "log.cleaner.max.compaction.lag.ms",
    ),
    ConfigKey(
        "max.message.bytes", ConfigType.INT, "1048588",
        "The largest record batch, after compression, that the topic takes.",
        at_least(0), "message.max.bytes",
    ),
    ConfigKey(
        "message.timestamp.after.max.ms", ConfigType.LONG, str(LONG_MAX),
        "How far a message's CreateTime may lie ahead of the broker's clock.",
        at_least(0), "log.message.timestamp.after.max.ms",
    ),
    ConfigKey(
        "message.timestamp.before.max.ms", ConfigType.LONG, str(LONG_MAX),
        "How far a message's CreateTime may lie behind the broker's clock.",
        at_least(0), "log.message.timestamp.before.max.ms",
    ),
    ConfigKey(
        "message.timestamp.type", ConfigType.STRING, "CreateTime",
        "Whether a message carries its producer's time or the time it was appended.",
        one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type",
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5",
        "The share of a log that must be uncompacted before compaction is worth while.",
        between(0, 1), "log.cleaner.min.cleanable.ratio",
    ),
    ConfigKey(
        "min.compaction.lag.ms", ConfigType.LONG, "0",
        "The time for which a message is never compacted.",
        at_least(0), "log.cleaner.min.compaction.lag.ms",
    ),
    ConfigKey(
        "min.insync.replicas", ConfigType.INT, "1",
        "In-sync replicas that a write with acks=all needs. Unless it is set, the majority of the topic's"
        " replication factor.",
        at_least(1), "min.insync.replicas",
    ),
    ConfigKey(
        "preallocate", ConfigType.BOOLEAN, "false",
        "Whether a segment's file is allocated when it is created." + NO_EFFECT,
        None, "log.preallocate",
    ),
    ConfigKey(
        "retention", ConfigType.STRING, "time",
        "Why messages go: time, because they are older than retention.ms or too many for retention.bytes;"
        " consumed, because every subscription has got them, however long that takes. Penstock's own config.",
        one_of("time", "consumed"),
    ),
    ConfigKey(
        "retention.bytes", ConfigType.LONG, "-1",
        "The size of a partition beyond which its oldest segments are deleted; -1 for no limit.",
        at_least(-1), "log.retention.bytes",
    ),
    ConfigKey(
        "retention.consumed.bytes", ConfigType.LONG, "-1",
        "With retention=consumed, the size of a partition beyond which its oldest segments are deleted even"
        " if a subscription still needs them; -1 for no limit. Penstock's own config.",
        at_least(-1),
    ),
    ConfigKey(
        "retention.consumed.grace.ms", ConfigType.LONG, str(DAY_MS),
        "With retention=consumed, how long a topic without subscriptions is kept, and its messages."
        " Penstock's own config.",
        at_least(0),
    ),
    ConfigKey(
        "retention.consumed.ms", ConfigType.LONG, "-1",
        "With retention=consumed, the age beyond which segments are deleted even if a subscription still"
        " needs them; -1 for no limit. Penstock's own config.",
        at_least(-1),
    ),
    ConfigKey(
        UNREAD_SINCE, ConfigType.LONG, str(SUBSCRIBED),
        "With retention=consumed, since when the topic has had no subscription, in milliseconds since 1970;"
        " -1 if it has one, 0 while it is being deleted. Brokers keep it. Penstock's own config.",
        at_least(SUBSCRIBED),
    ),
    ConfigKey(
        "retention.ms", ConfigType.LONG, str(7 * DAY_MS),
        "The age beyond which segments are deleted; -1 for no limit.",
        at_least(-1), "log.retention.ms",
    ),
    ConfigKey(
        "segment.bytes", ConfigType.INT, str(1 << 30),
        "The size at which a new segment is begun.",
        at_least(14), "log.segment.bytes",
    ),
    ConfigKey(
        "segment.index.bytes", ConfigType.INT, str(10 << 20),
        "The size of a segment's index." + NO_EFFECT,
        at_least(4), "log.index.size.max.bytes",
    ),
    ConfigKey(
        "segment.jitter.ms", ConfigType.LONG, "0",
        "A random part of segment.ms by which segments are rolled earlier." + NO_EFFECT,
        at_least(0), "log.roll.jitter.ms",
    ),
    ConfigKey(
        "segment.ms", ConfigType.LONG, str(7 * DAY_MS),
        "The age at which a new segment is begun.",
        at_least(1), "log.roll.ms",
    ),
    ConfigKey(
        "unclean.leader.election.enable", ConfigType.BOOLEAN, "false",
        "Whether a replica that is not in sync may become leader when no in-sync replica is alive: the one"
        " that has most. Messages that were acknowledged may be lost then.",
        None, "unclean.leader.election.enable",
    ),
)  # fmt: skip

TOPIC_CONFIGS: Mapping[str, ConfigKey] = {key.name: key for key in _KEYS}
TOPIC_CONFIG_BY_BROKER_NAME: Mapping[str, ConfigKey] = {
    key.broker_name: key for key in _KEYS if key.broker_name is not None
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configs of a topic as typed values; each field is the config of that name."""

    cleanup_policy: tuple[str, ...]
    compression_type: str
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush: str
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention: str
    retention_bytes: int
    retention_consumed_bytes: int
    retention_consumed_grace_ms: int
    retention_consumed_ms: int
    retention_consumed_unread_since_ms: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_consumed(self) -> bool:
        """What every subscription has got goes, and nothing goes by its age or size."""
        return self.delete and self.retention == "consumed"

    @property
    def is_closed(self) -> bool:
        """Nobody can subscribe to the topic any more: it is about to be deleted."""
        return self.is_consumed and self.retention_consumed_unread_since_ms == CLOSED

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


def effective_topic_config(
    overrides: Mapping[str, str],
    *defaults: Mapping[str, str],
    replication_factor: int = 1,
    internal: bool = False,
) -> TopicConfig:
    """The values in force, from the strongest layer to the weakest, all by the topic's names.

    The layers were validated when they were set. An override of a config that does not exist any more is
    passed over.
    """
    values: dict[str, Any] = {}
    for key in _KEYS:
        text = next((layer[key.name] for layer in (overrides, *defaults) if key.name in layer), None)
        if text is None:
            text = default_text(key, replication_factor)
        values[key.name.replace(".", "_")] = key.parse(text)
    if internal:
        values["flush"] = "commit"
    return TopicConfig(**values)


def default_text(key: ConfigKey, replication_factor: int) -> str:
    if key.name == "min.insync.replicas":
        return str(replication_factor // 2 + 1)
    return key.default


def check_topic_configs(overrides: Mapping[str, str | None]) -> None:
    """Validate what is to be set on a topic; ApiError INVALID_CONFIG names the first problem."""
    for name, text in overrides.items():
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            raise ApiError(ErrorCode.invalid_config, f"Unknown topic config name: {name[:200]}")
        if text is None:
            raise ApiError(ErrorCode.invalid_config, f"Null value not supported for topic configs: {name}")
        key.parse(text)
    lowest, highest = overrides.get("min.compaction.lag.ms"), overrides.get("max.compaction.lag.ms")
    if lowest is not None and highest is not None and int(lowest) > int(highest):
        raise ApiError(
            ErrorCode.invalid_config,
            "conflict topic config setting min.compaction.lag.ms"
            f" ({lowest}) > max.compaction.lag.ms ({highest})",
        )


NODE_TOPIC_DEFAULTS = frozenset({"num.partitions", "default.replication.factor"})
"""What the table of topic defaults in a node's configuration may name besides topic configs."""


def check_node_defaults(defaults: Mapping[str, str]) -> None:
    """Validate the table of topic defaults of a node's configuration, at its start."""
    check_topic_configs({name: text for name, text in defaults.items() if name not in NODE_TOPIC_DEFAULTS})
    for name in NODE_TOPIC_DEFAULTS & defaults.keys():
        ConfigKey(name, ConfigType.INT, "1", "", between(1, INT_MAX)).parse(defaults[name])


def topic_defaults_from_broker(overrides: Mapping[str, str]) -> dict[str, str]:
    """Broker configs such as log.retention.ms as defaults under the topic's names."""
    return {
        TOPIC_CONFIG_BY_BROKER_NAME[name].name: text
        for name, text in overrides.items()
        if name in TOPIC_CONFIG_BY_BROKER_NAME
    }
