"""What the driver asks the brokers: which partitions there are, where their logs begin and end.

A broker that restarts or a leader that moves must not end a stream: a question is asked again until it is
answered or the connection's timeout is over. What cannot become better, as a name nobody knows or a refused
login, fails at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.client.kafka.listed_offsets import list_offsets
from penstock.spark.errors import OptionError, SourceError
from penstock.spark.offsets import Offsets, Partition, to_json
from penstock.spark.options import KAFKA_PREFIX, Connection, Topics

T = TypeVar("T")

REQUEST_S_MAX: Final = 5.0
RETRY_PAUSE_S: Final = 0.1
INTERNAL_PREFIX: Final = "__"

_EMERGENCY: Final = 0
_SPEC: Final[Any] = OffsetSpec  # two of its constructors have no types
_PASSING: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)


def client_settings(connection: Connection, **own: Any) -> dict[str, Any]:
    """Settings of a client; keyword names with underscores stand for Kafka's names with dots.

    The user's win over `own`, and librdkafka's log lines are off: what matters comes as an error.
    """
    named = {name.replace("_", "."): value for name, value in own.items()}
    base = {"bootstrap.servers": connection.bootstrap, "client.id": "penstock-spark", "log_level": _EMERGENCY}
    return {**base, **named, **connection.settings}


def new_client(kind: Callable[[dict[str, Any]], T], settings: dict[str, Any]) -> T:
    """A client, or an OptionError that names the setting librdkafka does not take."""
    try:
        return kind(settings)
    except KafkaException as error:
        line = error_line(error)
        named = re.search(r'"([a-z._]+)"', line)
        raise OptionError(KAFKA_PREFIX + (named[1] if named else "*"), line) from error


def read_committed(connection: Connection) -> bool:
    return connection.settings.get("isolation.level", "read_committed") == "read_committed"


def error_line(error: KafkaException | KafkaError) -> str:
    first = error.args[0] if isinstance(error, KafkaException) and error.args else error
    if isinstance(first, KafkaError):
        return f"{(first.str() or '').rstrip('.')} ({first.name()})"
    return str(first)


class Cluster:
    """One owner for the driver's clients; they are made when they are first needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._admin: AdminClient | None = None
        self._committer: Consumer | None = None

    def partitions(self, topics: Topics) -> list[Partition]:
        """The partitions that are there now; one that was named and is not there is an error."""
        found = self._topics()
        for name in topics.names or sorted({partition.topic for partition in topics.assigned or ()}):
            if name not in found:
                raise SourceError(f"topic {name!r} does not exist at {self._connection.bootstrap}")
        for topic, partition in topics.assigned or ():
            if partition not in found[topic]:
                raise OptionError("assign", f"topic {topic!r} has no partition {partition}")
        return _chosen(found, topics)

    def existing(self, topics: Topics) -> list[Partition]:
        """As `partitions`, without those that are not there."""
        return _chosen(self._topics(), topics)

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self._offsets(partitions, _SPEC.earliest())

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The end of what can be read: with read_committed, not behind the first open transaction."""
        return self._offsets(partitions, _SPEC.latest())

    def at_timestamp(self, partitions: Iterable[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """The first record that is not older; the end of the log where there is none."""
        wanted = list(partitions)
        found = self._offsets(wanted, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self.latest(partition for partition in wanted if found[partition] < 0)
        return found | ends

    def commit(self, group: str, offsets: Offsets) -> None:
        """Publishes progress, so that the lag of the stream can be seen where groups are looked at."""
        if not offsets:
            return
        committer = self._committer
        if committer is None:
            settings = client_settings(self._connection, group_id=group, enable_auto_commit=False)
            committer = self._committer = new_client(Consumer, settings)
        positions = [TopicPartition(*partition, offset) for partition, offset in sorted(offsets.items())]

        def request() -> None:
            for answer in committer.commit(offsets=positions, asynchronous=False) or []:
                if answer.error is not None:
                    raise KafkaException(answer.error)

        self._ask(request, f"group {group!r}: cannot commit {to_json(offsets)}")

    def committed(self, group: str) -> list[TopicPartition]:
        """The offsets of a group in the first partition of each topic, with their metadata.

        Those of open transactions are waited for. A consumer is asked, which joins nothing: librdkafka's
        AdminClient ends the whole process when a coordinator has moved that it asks for offsets.
        """
        wanted = [TopicPartition(name, 0) for name in self._topics()]
        stable = {"isolation.level": "read_committed"}

        def request() -> list[TopicPartition]:
            settings = client_settings(self._connection, group_id=group, enable_auto_commit=False) | stable
            consumer = new_client(Consumer, settings)
            try:
                found = consumer.committed(wanted, timeout=self._request_s())
            finally:
                consumer.close()
            for partition in found:
                if partition.error is not None:
                    raise KafkaException(partition.error)
            return [partition for partition in found if partition.offset >= 0]

        return self._ask(request, f"group {group!r}: its offsets are not known") if wanted else []

    def delete_group(self, group: str) -> None:
        def request() -> None:
            futures = self._client().delete_consumer_groups([group], request_timeout=self._request_s())
            futures[group].result()

        self._ask(self._anew(request), f"group {group!r}: cannot be deleted")

    def close(self) -> None:
        if self._committer is not None:
            self._committer.close()
        self._committer = self._admin = None

    def _client(self) -> AdminClient:
        if self._admin is None:
            self._admin = new_client(AdminClient, client_settings(self._connection))
        return self._admin

    def _anew(self, request: Callable[[], T]) -> Callable[[], T]:
        """A request to a coordinator or to leaders, by a new client each time it is repeated.

        An AdminClient whose coordinator died in the middle of such a request has been seen to leave all that
        follow without an answer, and one whose leader says nothing asks it again.
        """

        def ask() -> T:
            try:
                return request()
            except KafkaException:
                self._admin = None
                raise

        return ask

    def _topics(self) -> dict[str, list[int]]:
        # Asking for all topics, not for one: that would create it on brokers that create topics by
        # themselves.
        metadata = self._ask(
            lambda: self._client().list_topics(timeout=self._request_s()), "cannot list topics"
        )
        return {name: sorted(topic.partitions) for name, topic in metadata.topics.items()}

    def _offsets(self, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        level = (
            IsolationLevel.READ_COMMITTED
            if read_committed(self._connection)
            else IsolationLevel.READ_UNCOMMITTED
        )
        wanted = {TopicPartition(*partition): spec for partition in partitions}
        if not wanted:
            return {}

        def request() -> dict[Partition, int]:
            futures = list_offsets(
                self._client(), wanted, isolation_level=level, request_timeout=self._request_s()
            )
            return {
                Partition(partition.topic, partition.partition): future.result().offset
                for partition, future in futures.items()
            }

        return self._ask(self._anew(request), "cannot list offsets")

    def _request_s(self) -> float:
        return min(REQUEST_S_MAX, self._connection.timeout_s)

    def _ask(self, request: Callable[[], T], failed: str) -> T:
        deadline = time.monotonic() + self._connection.timeout_s
        while True:
            try:
                return request()
            except KafkaException as error:
                passing = error.args[0].code() in _PASSING
                if passing and time.monotonic() < deadline:
                    time.sleep(RETRY_PAUSE_S)
                    continue
                where = f"{self._connection.bootstrap} for {self._connection.timeout_s:g} s"
                reason = f"no answer from {where}: {error_line(error)}" if passing else error_line(error)
                raise SourceError(f"{failed}: {reason}") from error


def _chosen(found: Mapping[str, list[int]], topics: Topics) -> list[Partition]:
    there = [Partition(name, partition) for name in sorted(found) for partition in found[name]]
    if topics.assigned is not None:
        return [partition for partition in there if partition in topics.assigned]
    if topics.names is not None:
        return [partition for partition in there if partition.topic in topics.names]
    pattern = re.compile(topics.pattern or "")
    return [
        partition
        for partition in there
        if pattern.fullmatch(partition.topic) and not partition.topic.startswith(INTERNAL_PREFIX)
    ]


def resolve(
    cluster: Cluster, partitions: Iterable[Partition], wanted: str | Mapping[Partition, int], option: str
) -> dict[Partition, int]:
    """The offsets that `earliest`, `latest` or the user's JSON mean; JSON must name just these partitions."""
    there = sorted(partitions)
    if wanted == "earliest":
        return cluster.earliest(there)
    if wanted == "latest":
        return cluster.latest(there)
    assert isinstance(wanted, Mapping)
    for partition in sorted(set(there) ^ set(wanted)):
        problem = "has no offset" if partition not in wanted else "is not among the partitions that are read"
        raise OptionError(option, f"partition {partition} {problem}")
    earliest = cluster.earliest(partition for partition in there if wanted[partition] == -2)
    latest = cluster.latest(partition for partition in there if wanted[partition] == -1)
    return {**wanted, **earliest, **latest}
