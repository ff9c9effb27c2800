"""The state that the metadata log adds up to.

An image is never changed once it is published: readers hold it as long as they like and see one consistent
state. A batch of records is applied to an `ImageDraft`, which copies what it touches, once per batch, and
`finish` gives the next image together with a delta that says what is different. Replaying a log is one
long draft, so its cost is that of the records alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.metadata.records import (
    BootstrappedRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    LeaderChangeRecord,
    MetadataRecord,
    MetadataRecordError,
    NewLeaderEpochsRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    RetireStorageRecord,
    ShutdownBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from uuid import UUID

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 1
"""The newest level of the metadata log that this code reads and writes."""

NO_LEADER = -1

_NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


class ResourceType(IntEnum):
    """As numbered in the Kafka protocol."""

    TOPIC = 2
    BROKER = 4


class ConfigResource(NamedTuple):
    resource_type: int
    name: str


@dataclass(frozen=True, slots=True)
class BrokerImage:
    id: int
    host: str
    port: int
    rack: str | None
    epoch: int
    incarnation: UUID
    storage_id: UUID
    fenced: bool
    stopping: bool = False

    @property
    def electable(self) -> bool:
        """Whether it may become a leader, join an in-sync set and hold new replicas (KIP-841)."""
        return not self.fenced and not self.stopping


class PartitionImage(NamedTuple):
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    """The preferred leader first. During a reassignment the target, then the replicas on their way out."""
    isr: tuple[int, ...]
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    last_isr: tuple[int, ...] = ()
    """Who left the set because its log may lack its end, since the leader last proved to be one."""
    wiped: tuple[int, ...] = ()
    """Replicas that came back with an empty disk and have not been in sync since."""
    offline: tuple[int, ...] = ()
    """Replicas that are out of service, on brokers that serve all else (KIP-858)."""
    borrowed: tuple[int, ...] = ()
    """Replicas that the balancer has added to help out, and takes away when they are not needed any more."""

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas as they were before the reassignment under way, if there is one."""
        return tuple(each for each in self.replicas if each not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas as they will be when the reassignment under way is complete."""
        return tuple(each for each in self.replicas if each not in self.removing)


def created(record: PartitionRecord) -> PartitionImage:
    image = PartitionImage(
        record.leader, record.leader_epoch, record.replicas, record.isr, record.partition_epoch,
        record.adding or (), record.removing or (), record.last_isr or (), record.wiped or (),
        record.offline or (), record.borrowed or (),
    )  # fmt: skip
    return image._replace(isr=(), last_isr=image.isr) if record.unclean else image


def changed(old: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    image = PartitionImage(
        old.leader if record.leader is None else record.leader,
        old.leader_epoch if record.leader_epoch is None else record.leader_epoch,
        old.replicas if record.replicas is None else record.replicas,
        old.isr if record.isr is None else record.isr,
        record.partition_epoch,
        old.adding if record.adding is None else record.adding,
        old.removing if record.removing is None else record.removing,
        old.last_isr if record.last_isr is None else record.last_isr,
        old.wiped if record.wiped is None else record.wiped,
        old.offline if record.offline is None else record.offline,
        old.borrowed if record.borrowed is None else record.borrowed,
    )
    # Version 0.1 kept a last member that may have lost data in the set, with this mark until it led.
    if record.unclean:
        return image._replace(isr=(), last_isr=image.isr)
    if record.unclean is False:
        return image._replace(isr=old.last_isr if record.isr is None else record.isr, last_isr=())
    return image


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionImage]

    @property
    def replication_factor(self) -> int:
        """That of the least replicated partition; borrowed replicas do not count.

        Nor do those that are still being added: the default of min.insync.replicas follows from it, and must
        not rise before they have joined.
        """
        return min((len(each.original) - len(each.borrowed) for each in self.partitions.values()), default=1)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    overrides: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    cluster_id: str | None = None
    retired: frozenset[UUID] = frozenset()
    """Data folders of brokers that left for good."""

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return self.topics[name] if name is not None else None

    def configs(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set for a topic or broker; empty where everything is at its default."""
        return self.overrides.get(ConfigResource(resource_type, name), _NO_OVERRIDES)

    def live_brokers(self) -> list[BrokerImage]:
        """Those that clients are told of."""
        return sorted((each for each in self.brokers.values() if not each.fenced), key=lambda each: each.id)

    def electable_brokers(self) -> list[BrokerImage]:
        return [broker for broker in self.live_brokers() if broker.electable]


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """What one batch changed. Topics by name; `deleted` holds their last images, the others the new ones.

    A topic that was deleted and created again in one batch is in both. `configs` names the topics and
    brokers whose configs changed; configs of a broker are defaults of all topics, so these come with it, and
    a replication factor is where the default of min.insync.replicas comes from.
    """

    created: Mapping[str, TopicImage]
    deleted: Mapping[str, TopicImage]
    changed: Mapping[str, TopicImage]
    configs: frozenset[ConfigResource]
    brokers: frozenset[int]


class ImageDraft:
    def __init__(self, image: MetadataImage) -> None:
        self._before = image
        self._brokers = dict(image.brokers)
        self._topics = dict(image.topics)
        self._topic_names = dict(image.topic_names)
        self._overrides = dict(image.overrides)
        self._features = dict(image.features)
        self._next_producer_id = image.next_producer_id
        self._cluster_id = image.cluster_id
        self._retired = image.retired
        # Copies made by this draft, which it may go on changing.
        self._own_partitions: dict[str, dict[int, PartitionImage]] = {}
        self._own_overrides: dict[ConfigResource, dict[str, str]] = {}
        self._touched_brokers: set[int] = set()

    def finish(self) -> tuple[MetadataImage, MetadataDelta]:
        image = MetadataImage(
            self._brokers, self._topics, self._topic_names,
            self._overrides, self._features, self._next_producer_id, self._cluster_id, self._retired,
        )  # fmt: skip
        return image, self._delta(image)

    def _delta(self, image: MetadataImage) -> MetadataDelta:
        before = self._before.topic_names
        deleted = {
            name: self._before.topics[name] for key, name in before.items() if key not in image.topic_names
        }
        created = {name: image.topics[name] for key, name in image.topic_names.items() if key not in before}
        return MetadataDelta(
            created,
            deleted,
            {
                name: image.topics[name]
                for name in self._own_partitions
                if name in image.topics and name not in created
            },
            frozenset(self._changed_configs(image)),
            frozenset(self._touched_brokers),
        )

    def _changed_configs(self, image: MetadataImage) -> Iterator[ConfigResource]:
        yield from self._own_overrides
        if any(resource.resource_type == ResourceType.BROKER for resource in self._own_overrides):
            for name in image.topics:
                yield ConfigResource(ResourceType.TOPIC, name)
        for name in self._own_partitions:
            old, new = self._before.topics.get(name), image.topics.get(name)
            if old is not None and new is not None and old.replication_factor != new.replication_factor:
                yield ConfigResource(ResourceType.TOPIC, name)

    def apply(self, record: MetadataRecord) -> None:
        _APPLY[type(record)](self, record)

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        if record.name != METADATA_VERSION or record.level > METADATA_VERSION_LEVEL:
            raise MetadataRecordError(
                f"the metadata log needs {record.name} {record.level};"
                f" this Penstock knows {METADATA_VERSION} up to {METADATA_VERSION_LEVEL}"
            )
        self._features[record.name] = record.level

    def _name_cluster(self, record: ClusterRecord) -> None:
        if self._cluster_id not in (None, record.cluster_id):
            raise MetadataRecordError(f"cluster {self._cluster_id} cannot become {record.cluster_id}")
        self._cluster_id = record.cluster_id

    def _register(self, record: RegisterBrokerRecord) -> None:
        self._touched_brokers.add(record.broker_id)
        self._brokers[record.broker_id] = BrokerImage(
            record.broker_id, record.host, record.port, record.rack,
            record.broker_epoch, record.incarnation, record.storage_id, fenced=True,
        )  # fmt: skip

    def _unregister(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record)
        del self._brokers[record.broker_id]

    def _retire(self, record: RetireStorageRecord) -> None:
        self._retired |= {record.storage_id}

    def _fence(self, record: FenceBrokerRecord) -> None:
        self._brokers[record.broker_id] = replace(self._broker(record), fenced=True)

    def _unfence(self, record: UnfenceBrokerRecord) -> None:
        self._brokers[record.broker_id] = replace(self._broker(record), fenced=False)

    def _shut_down(self, record: ShutdownBrokerRecord) -> None:
        self._brokers[record.broker_id] = replace(self._broker(record), stopping=True)

    def _add_topic(self, record: TopicRecord) -> None:
        if record.name in self._topics or record.topic_id in self._topic_names:
            raise MetadataRecordError(f"topic {record.name} ({record.topic_id}) is created twice")
        partitions: dict[int, PartitionImage] = {}
        self._own_partitions[record.name] = partitions
        self._topics[record.name] = TopicImage(record.name, record.topic_id, partitions)
        self._topic_names[record.topic_id] = record.name

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._topic(record.topic_id).name
        resource = ConfigResource(ResourceType.TOPIC, name)
        del self._topic_names[record.topic_id], self._topics[name]
        self._own_partitions.pop(name, None)
        self._own_overrides.pop(resource, None)
        self._overrides.pop(resource, None)

    def _add_partition(self, record: PartitionRecord) -> None:
        partitions = self._partitions(record.topic_id)
        if record.partition in partitions:
            raise MetadataRecordError(f"partition {record.partition} of {record.topic_id} is created twice")
        partitions[record.partition] = created(record)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions(record.topic_id)
        old = partitions.get(record.partition)
        if old is None:
            raise MetadataRecordError(f"partition {record.partition} of {record.topic_id} does not exist")
        partitions[record.partition] = changed(old, record)

    def _begin_epochs(self, record: NewLeaderEpochsRecord) -> None:
        for topic in list(self._topics.values()):
            for index, old in topic.partitions.items():
                if old.leader == record.leader:
                    # The same keys, so that the loop may go on over a draft's own copy.
                    self._partitions(topic.topic_id)[index] = old._replace(
                        leader_epoch=old.leader_epoch + 1, partition_epoch=old.partition_epoch + 1
                    )

    def _set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        overrides = self._own_overrides.get(resource)
        if overrides is None:
            overrides = self._own_overrides[resource] = dict(self._overrides.get(resource, {}))
        if record.value is None:
            overrides.pop(record.name, None)
        else:
            overrides[record.name] = record.value
        if overrides:
            self._overrides[resource] = overrides
        else:
            self._overrides.pop(resource, None)

    def _take_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = max(self._next_producer_id, record.next_producer_id)

    def _pass_over(self, record: LeaderChangeRecord | VotersRecord | BootstrappedRecord) -> None:
        """What concerns the quorum alone."""

    def _broker(
        self,
        record: UnregisterBrokerRecord | FenceBrokerRecord | UnfenceBrokerRecord | ShutdownBrokerRecord,
    ) -> BrokerImage:
        broker = self._brokers.get(record.broker_id)
        if broker is None or broker.epoch != record.broker_epoch:
            raise MetadataRecordError(f"no broker {record.broker_id} with epoch {record.broker_epoch}")
        self._touched_brokers.add(record.broker_id)
        return broker

    def _topic(self, topic_id: UUID) -> TopicImage:
        name = self._topic_names.get(topic_id)
        if name is None:
            raise MetadataRecordError(f"no topic with id {topic_id}")
        return self._topics[name]

    def _partitions(self, topic_id: UUID) -> dict[int, PartitionImage]:
        topic = self._topic(topic_id)
        partitions = self._own_partitions.get(topic.name)
        if partitions is None:
            partitions = self._own_partitions[topic.name] = dict(topic.partitions)
            self._topics[topic.name] = TopicImage(topic.name, topic.topic_id, partitions)
        return partitions


_APPLY: Mapping[type, Callable[[ImageDraft, Any], None]] = {
    FeatureLevelRecord: ImageDraft._set_feature,
    ClusterRecord: ImageDraft._name_cluster,
    RegisterBrokerRecord: ImageDraft._register,
    UnregisterBrokerRecord: ImageDraft._unregister,
    RetireStorageRecord: ImageDraft._retire,
    FenceBrokerRecord: ImageDraft._fence,
    UnfenceBrokerRecord: ImageDraft._unfence,
    ShutdownBrokerRecord: ImageDraft._shut_down,
    TopicRecord: ImageDraft._add_topic,
    RemoveTopicRecord: ImageDraft._remove_topic,
    PartitionRecord: ImageDraft._add_partition,
    PartitionChangeRecord: ImageDraft._change_partition,
    NewLeaderEpochsRecord: ImageDraft._begin_epochs,
    ConfigRecord: ImageDraft._set_config,
    ProducerIdsRecord: ImageDraft._take_producer_ids,
    LeaderChangeRecord: ImageDraft._pass_over,
    VotersRecord: ImageDraft._pass_over,
    BootstrappedRecord: ImageDraft._pass_over,
}
