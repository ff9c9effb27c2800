"""Topics as clusters of replicas: made, found, and described as a leader and its followers.

Only requests of Kafka's own protocol are used, so the other side may be Penstock or Apache Kafka.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from penstock.client.errors import (
    DuplicateTopicNameError,
    InsufficientReplicasError,
    TopicClusterDoesNotExistError,
    TopicNotFoundError,
)
from penstock.client.kafka.cluster import REQUEST_S_MAX, RETRY_PAUSE_S
from penstock.client.kafka.cluster import Cluster as Brokers
from penstock.client.kafka.failures import error_code, passes
from penstock.client.topic_plan import REPLICATION_FACTOR_SETTING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka.admin import ClusterMetadata, TopicMetadata

    from penstock.client.topic_plan import TopicPlan

UNKNOWN_TOPIC_S: Final = 1.0
"""For so long a topic may be unknown to a broker that has not heard of its creation yet."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who serves a topic.

    A topic has several partitions. As long as one broker can carry them it leads all of them; where some were
    moved to relieve it, `leader` is the one that leads most.
    """

    leader: str
    """`host:port`."""
    followers: tuple[str, ...]
    """The other replicas that are alive, each as `host:port`."""
    min_replicas: int
    """So many replicas, the leader among them, must have a position before it is acknowledged."""


class TopicClusters:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._known: set[str] = set()

    def create(self, plan: TopicPlan) -> None:
        """DuplicateTopicNameError if there is one of this name."""
        what = f"topic {plan.name!r} cannot be created"
        if plan.name in self._brokers.ask(self._brokers.metadata, what).topics:
            raise DuplicateTopicNameError(f"topic {plan.name!r} exists already")
        self._brokers.ask(_Creation(self._brokers, plan), what)
        self._known.add(plan.name)

    def ensure(self, plans: Iterable[TopicPlan]) -> None:
        """Creates those that are missing; somebody else may be doing the same."""
        there = self._brokers.ask(self._brokers.metadata, "topics cannot be listed").topics
        for plan in plans:
            if plan.name not in there:
                try:
                    self.create(plan)
                except DuplicateTopicNameError:
                    continue  # it is there now, and that was asked for

    def describe(self, topic: str) -> Cluster:
        """Waits for an election that is under way."""
        deadline = time.monotonic() + self._brokers.timeout_s
        while True:
            found = self._ask_about(topic)
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                raise InsufficientReplicasError(f"no replica of topic {topic!r} can lead it")
            time.sleep(RETRY_PAUSE_S)

    def require(self, topic: str) -> None:
        """TopicClusterDoesNotExistError if there is no such topic. One that was there once is believed in."""
        if topic not in self._known:
            self.partitions(topic)
            self._known.add(topic)

    def forget(self, topic: str) -> None:
        """It has turned out not to be there."""
        self._known.discard(topic)

    def exists(self, topic: str) -> bool:
        return topic in self._brokers.ask(self._brokers.metadata, "topics cannot be listed").topics

    def partitions(self, topic: str) -> list[int]:
        """TopicClusterDoesNotExistError if there is no such topic."""
        return sorted(self._find(topic)[1].partitions)

    def _ask_about(self, topic: str) -> Cluster | None:
        metadata, found = self._find(topic)
        leaders = Counter(each.leader for _, each in sorted(found.partitions.items()))
        replicas = dict.fromkeys(
            replica for _, each in sorted(found.partitions.items()) for replica in each.replicas
        )
        leader = leaders.most_common(1)[0][0]
        address = {number: f"{each.host}:{each.port}" for number, each in metadata.brokers.items()}
        if leader not in address:
            return None
        followers = (address[each] for each in replicas if each != leader and each in address)
        return Cluster(address[leader], tuple(followers), self._min_replicas(topic))

    def _find(self, topic: str) -> tuple[ClusterMetadata, TopicMetadata]:
        def request() -> tuple[ClusterMetadata, TopicMetadata]:
            metadata = self._brokers.metadata()
            found = metadata.topics.get(topic)
            if found is None or not found.partitions:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
            return metadata, found

        try:
            return self._brokers.ask(request, f"topic {topic!r} cannot be found", UNKNOWN_TOPIC_S)
        except TopicNotFoundError as error:
            self.forget(topic)
            raise TopicClusterDoesNotExistError(f"there is no topic {topic!r}") from error

    def _min_replicas(self, topic: str) -> int:
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def request() -> int:
            futures = self._brokers.admin().describe_configs(
                [resource], request_timeout=_request_s(self._brokers)
            )
            (future,) = futures.values()
            return int(future.result()["min.insync.replicas"].value)

        return self._brokers.ask(request, f"the settings of topic {topic!r} are not known")


class _Creation:
    """One topic that is being created, and asked for again if no answer comes.

    The answer may have been lost, and not the request: "exists already" is good news for one that asks again.
    """

    def __init__(self, brokers: Brokers, plan: TopicPlan) -> None:
        self._brokers = brokers
        self._plan = plan
        self._in_doubt = False
        self._attempts = 0

    def __call__(self) -> None:
        brokers = sorted(self._brokers.metadata().brokers)
        new = NewTopic(
            self._plan.name,
            num_partitions=self._plan.partitions,
            replica_assignment=self._plan.assignment(brokers, self._replication_factor(brokers)),
            config=dict(self._plan.config),
        )
        futures = self._brokers.admin().create_topics([new], request_timeout=_request_s(self._brokers))
        (future,) = futures.values()
        try:
            future.result()
        except KafkaException as error:
            if error_code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                self._in_doubt = self._in_doubt or passes(error)
                raise
            if not self._in_doubt:
                raise DuplicateTopicNameError(f"topic {self._plan.name!r} exists already") from error

    def _replication_factor(self, brokers: list[int]) -> int:
        """The default of the cluster. Each attempt asks another broker: one may be silent."""
        if len(brokers) == 1:
            return 1
        resource = ConfigResource(ResourceType.BROKER, str(brokers[self._attempts % len(brokers)]))
        self._attempts += 1
        futures = self._brokers.admin().describe_configs(
            [resource], request_timeout=_request_s(self._brokers)
        )
        (future,) = futures.values()
        return int(future.result()[REPLICATION_FACTOR_SETTING].value)


def _request_s(brokers: Brokers) -> float:
    return min(REQUEST_S_MAX, brokers.timeout_s)
