"""Topics, their settings and groups: librdkafka's admin client, whose futures the event loop waits for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from penstock.client.errors import PenstockError
from penstock.client.kafka.cluster import SILENCE_MS_MAX
from penstock.client.kafka.group_offsets import look_at_offsets
from penstock.client.kafka.listed_offsets import list_offsets
from penstock.client.topic_plan import REPLICATION_FACTOR_SETTING
from penstock.gateway.kafka.errors import InvalidRequestError, KafkaClientError, KafkaUnavailableError
from penstock.gateway.kafka.librdkafka import error_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from confluent_kafka.admin import TopicDescription
    from confluent_kafka.admin._metadata import ClusterMetadata

T = TypeVar("T")

BROKER_DEFAULT: Final = -1
INTERNAL_PREFIX: Final = "__"
GRACE_S: Final = 5.0
"""What librdkafka's own deadline is given before its future is given up."""


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    topic_id: str
    """Another one than before: the topic was deleted, and one of the same name created."""
    partitions: int


@dataclass(frozen=True, slots=True)
class ConfigValue:
    value: str | None
    source: str
    """`dynamic_topic_config` where the topic has its own, else where the value comes from."""
    is_read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True)
class GroupInfo:
    group: str
    state: str


@dataclass(frozen=True, slots=True)
class GroupPartition:
    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: str | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group: str
    state: str
    assignor: str | None
    members: tuple[dict[str, str | None], ...]
    partitions: tuple[GroupPartition, ...]

    @property
    def lag(self) -> int:
        return sum(partition.lag or 0 for partition in self.partitions)


class KafkaAdmin:
    def __init__(self, config: dict[str, Any], *, seconds_max: float) -> None:
        self._config = config
        self._seconds_max = seconds_max
        self._client: AdminClient | None = None

    def start(self) -> None:
        self._client = AdminClient({**self._config, "socket.timeout.ms": SILENCE_MS_MAX})

    def close(self) -> None:
        self._client = None

    @property
    def client(self) -> AdminClient:
        if self._client is None:
            raise KafkaUnavailableError("the gateway is stopping")
        return self._client

    async def _ask(self, ask: Callable[[AdminClient], Mapping[Any, Future[T]]], topic: str = "") -> T:
        """The answer to a question about one thing; `ask` makes it and returns the client's future for it."""
        try:
            (future,) = ask(self.client).values()
        except KafkaException as error:
            raise error_in(error, topic) from error
        except (TypeError, ValueError) as error:  # nothing that librdkafka would send
            raise InvalidRequestError(str(error)) from error
        return await self._answer(future, topic)

    async def _answer(self, future: Future[T], topic: str = "") -> T:
        try:
            async with asyncio.timeout(self._seconds_max + GRACE_S):
                return await asyncio.wrap_future(future)
        except KafkaException as error:
            raise error_in(error, topic) from error
        except TimeoutError:
            raise KafkaUnavailableError("the brokers did not answer in time") from None

    async def _metadata(self) -> ClusterMetadata:
        try:
            # The one call without a future. It waits in C, and a thread of the pool with it.
            return await asyncio.to_thread(self.client.list_topics, timeout=self._seconds_max)
        except KafkaException as error:
            raise error_in(error) from error

    async def topics(self, *, internal: bool = False) -> dict[str, list[PartitionInfo]]:
        """All topics with their partitions, by name; those that begin with `__` only when asked for."""
        metadata = await self._metadata()
        return {
            name: [
                PartitionInfo(index, leader_of(entry.leader), tuple(entry.replicas), tuple(entry.isrs))
                for index, entry in sorted(topic.partitions.items())
            ]
            for name, topic in sorted(metadata.topics.items())
            if internal or not name.startswith(INTERNAL_PREFIX)
        }

    async def describe(self, topic: str) -> list[PartitionInfo]:
        """The partitions of one topic; UnknownTopicError."""
        description = await self._describe(topic)
        return [
            PartitionInfo(
                entry.id,
                entry.leader.id if entry.leader is not None and entry.leader.id >= 0 else None,
                tuple(node.id for node in entry.replicas),
                tuple(node.id for node in entry.isr),
            )
            for entry in description.partitions
        ]

    async def _describe(self, topic: str) -> TopicDescription:
        return await self._ask(
            lambda client: client.describe_topics(
                TopicCollection([topic]), request_timeout=self._seconds_max
            ),
            topic,
        )

    async def identify(self, topic: str) -> TopicIdentity:
        """Which topic has this name, and how many partitions; UnknownTopicError."""
        description = await self._describe(topic)
        return TopicIdentity(str(description.topic_id), len(description.partitions))

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """`assignment`: the brokers of each partition, the preferred leader first, instead of a number of
        replicas. TopicExistsError, InvalidTopicError."""

        def ask(client: AdminClient) -> Mapping[str, Future[None]]:
            placing: dict[str, Any] = {"replication_factor": replicas or BROKER_DEFAULT}
            if assignment is not None:
                placing = {"replica_assignment": [list(each) for each in assignment]}
            new = NewTopic(topic, num_partitions=partitions, config=dict(config or {}), **placing)
            return client.create_topics([new], request_timeout=self._seconds_max)

        await self._ask(ask, topic)

    async def delete_topic(self, topic: str) -> None:
        await self._ask(
            lambda client: client.delete_topics([topic], request_timeout=self._seconds_max), topic
        )

    async def configs(self, topic: str) -> dict[str, ConfigValue]:
        def ask(client: AdminClient) -> Mapping[Any, Future[dict[str, ConfigEntry]]]:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            return client.describe_configs([resource], request_timeout=self._seconds_max)

        entries = await self._ask(ask, topic)
        return {
            name: ConfigValue(
                entry.value,
                ConfigSource(entry.source).name.lower(),
                bool(entry.is_read_only),
                bool(entry.is_sensitive),
            )
            for name, entry in sorted(entries.items())
        }

    async def default_replication_factor(self, brokers: Sequence[int]) -> int:
        """Replicas of a topic for which no number is given, as the first of the brokers says that answers."""
        for broker in brokers[:-1]:
            try:
                return await self._default_replication_factor(broker)
            except KafkaUnavailableError:
                continue  # it stands still, or has just stopped
        return await self._default_replication_factor(brokers[-1])

    async def _default_replication_factor(self, broker: int) -> int:
        def ask(client: AdminClient) -> Mapping[Any, Future[dict[str, ConfigEntry]]]:
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            request_s = min(self._seconds_max, SILENCE_MS_MAX / 1000)
            return client.describe_configs([resource], request_timeout=request_s)

        value = (await self._ask(ask))[REPLICATION_FACTOR_SETTING].value
        assert value is not None, "only secrets are not told"
        return int(value)

    async def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """None goes back to the default."""

        def ask(client: AdminClient) -> Mapping[Any, Future[Any]]:
            entries = [
                ConfigEntry(
                    name,
                    value,
                    incremental_operation=AlterConfigOpType.DELETE
                    if value is None
                    else AlterConfigOpType.SET,
                )
                for name, value in changes.items()
            ]
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
            return client.incremental_alter_configs([resource], request_timeout=self._seconds_max)

        await self._ask(ask, topic)

    async def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Everything below the offset `before` goes away."""
        where = TopicPartition(topic, partition, before)
        await self._ask(
            lambda client: client.delete_records([where], request_timeout=self._seconds_max), topic
        )

    async def end_offsets(self, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where each partition ends; those that cannot be asked are left out."""
        if not partitions:
            return {}
        await self._metadata()  # by itself librdkafka goes on asking the leaders that it knows
        wanted = {TopicPartition(topic, index): OffsetSpec.latest() for topic, index in partitions}
        futures = list_offsets(self.client, wanted, request_timeout=self._seconds_max)
        found: dict[tuple[str, int], int] = {}
        for where, future in futures.items():
            try:
                found[where.topic, where.partition] = (await self._answer(future)).offset
            except KafkaUnavailableError:
                raise
            except KafkaClientError:
                continue  # it was deleted, or has no leader that answers
        return found

    async def groups(self) -> list[GroupInfo]:
        # Each broker is asked for its groups, that is, each that librdkafka knows; by itself it looks for new
        # ones every five minutes only.
        await self._metadata()
        result = await self._answer(self.client.list_consumer_groups(request_timeout=self._seconds_max))
        if result.errors:
            raise error_in(result.errors[0])
        return sorted(
            (GroupInfo(group.group_id, state_name(group.state)) for group in result.valid),
            key=lambda group: group.group,
        )

    async def describe_group(self, group: str) -> GroupDescription:
        described = await self._ask(
            lambda client: client.describe_consumer_groups([group], request_timeout=self._seconds_max)
        )
        committed = await self._committed(group)
        owners = {
            (assigned.topic, assigned.partition): member.client_id
            for member in described.members
            for assigned in (member.assignment.topic_partitions if member.assignment else [])
        }
        members = tuple(
            {"member": member.member_id, "client": member.client_id, "host": member.host}
            for member in described.members
        )
        return GroupDescription(
            group,
            state_name(described.state),
            described.partition_assignor or None,
            members,
            await self._lag(committed, owners),
        )

    async def _committed(self, group: str) -> dict[tuple[str, int], int]:
        bootstrap = self._config["bootstrap.servers"]
        try:
            return await asyncio.to_thread(look_at_offsets, bootstrap, group, self._seconds_max)
        except PenstockError as error:
            raise KafkaUnavailableError(str(error)) from error

    async def _lag(
        self, committed: dict[tuple[str, int], int], owners: dict[tuple[str, int], str]
    ) -> tuple[GroupPartition, ...]:
        """One entry per partition that the group reads or has read, also of topics that are gone."""
        every = sorted(committed.keys() | owners.keys())
        ends = await self.end_offsets(every)
        rows = []
        for key in every:
            offset, end = committed.get(key), ends.get(key)
            lag = max(0, end - offset) if end is not None and offset is not None else None
            rows.append(GroupPartition(*key, offset, end, lag, owners.get(key)))
        return tuple(rows)


def leader_of(node_id: int) -> int | None:
    return node_id if node_id >= 0 else None


def state_name(state: Any) -> str:
    return str(state.name).lower() if state is not None else "unknown"
