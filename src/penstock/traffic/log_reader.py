"""Reading a whole topic as it is at one moment: every record below the ends that its partitions have now.

The ends are asked for first. Then all partitions are read side by side, until each has come to its end: with
the record before it, or, where compaction or a transaction left the last offsets empty, when librdkafka says
that there is nothing more (EOF). What is written meanwhile lies behind the ends and is left alone.

Records that retention removes meanwhile are gone, and reading goes on with the oldest that is left. A
partition without a leader is waited for; when it does not get one in time, or its data are damaged, the topic
cannot be read: half an answer would look like a whole one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from penstock.client.errors import (
    DataNotAvailableError,
    DisconnectedServerError,
    NotAuthorizedError,
    PenstockError,
    TopicClusterDoesNotExistError,
    TopicNotFoundError,
)
from penstock.client.kafka.cluster import REQUEST_S_MAX
from penstock.client.kafka.failures import as_error, error_code, error_line, passes
from penstock.client.kafka.listed_offsets import list_offsets

if TYPE_CHECKING:
    from penstock.client.kafka.cluster import Cluster as Brokers
    from penstock.client.kafka.topic_clusters import TopicClusters

T = TypeVar("T")
Offsets = dict[int, int]
"""One offset for each partition."""

POLL_S: Final = 0.1
SILENT_POLLS_MAX: Final = 10
"""librdkafka waits for a partition of a deleted topic, and does not tell that it is gone."""
QUEUE_KIB_MAX: Final = 16 * 1024
FETCH_WAIT_MS: Final = 10
"""At its end a partition has nothing to wait for, and the next topic waits behind it on the connection."""
# confluent-kafka has functions without types.
_OLDEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_NEWEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_OUT_OF_RANGE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class LogReader:
    """May be used by several threads, one of which reads at a time."""

    def __init__(self, brokers: Brokers, clusters: TopicClusters) -> None:
        self._brokers = brokers
        self._clusters = clusters
        self._consumer: Consumer | None = None
        self._lock = threading.Lock()

    def read(
        self, topic: str, parse: Callable[[Message], T | None], *, since_ms: int | None = None
    ) -> list[T]:
        """What `parse` makes of each record, but for None; each partition in its order.

        With `since_ms`, only from the first record on that is as new as that.
        """
        partitions = self._clusters.partitions(topic)
        try:
            ends = self._offsets(topic, partitions, _NEWEST)
            starts = self._offsets(topic, partitions, _start(since_ms))
            with self._lock:
                reading = _Reading(self._brokers, self._open(topic), topic, parse)
                return reading.run(starts, ends, self._oldest, self._clusters.partitions)
        except (DisconnectedServerError, DataNotAvailableError) as error:
            raise self._unavailable(topic, error) from error
        except TopicNotFoundError as error:
            self._clusters.forget(topic)
            raise TopicClusterDoesNotExistError(f"topic {topic!r} is not there any more") from error

    def close(self) -> None:
        """Until it is used again."""
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _oldest(self, topic: str, partitions: Iterable[int]) -> Offsets:
        return self._offsets(topic, partitions, _OLDEST)

    def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> Offsets:
        """-1 where no record is as new as asked for. With transactions, the latest is the last stable one."""
        wanted = {TopicPartition(topic, index): spec for index in partitions}

        def request() -> Offsets:
            futures = list_offsets(
                self._brokers.admin(),
                wanted,
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=min(REQUEST_S_MAX, self._brokers.timeout_s),
            )
            try:
                return {partition.partition: future.result().offset for partition, future in futures.items()}
            except KafkaException as error:
                if error_code(error) != KafkaError._NOENT:
                    self._brokers.metadata()  # librdkafka goes on asking the leader that it knows
                    raise
                # So librdkafka says that none of these partitions has a leader: an election is waited for.
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)) from error

        return self._brokers.ask(request, f"the offsets of topic {topic!r} are not known")

    def _unavailable(self, topic: str, error: PenstockError) -> PenstockError:
        """A cluster that answers while the topic cannot be read, or no answer at all."""
        try:
            self._brokers.metadata()
        except KafkaException:
            return self._brokers.silence(f"topic {topic!r} cannot be read")
        return DataNotAvailableError(f"not all of topic {topic!r} can be read now: {error}")

    def _open(self, topic: str) -> Consumer:
        consumer = self._consumer or self._new_consumer()
        self._consumer = consumer
        # One that has not heard of a topic takes up to a second to ask for it by itself.
        request_s = min(REQUEST_S_MAX, self._brokers.timeout_s)
        self._brokers.ask(
            lambda: consumer.list_topics(topic, timeout=request_s), f"topic {topic!r} cannot be read"
        )
        return consumer

    def _new_consumer(self) -> Consumer:
        return self._brokers.reader(
            "penstock-traffic",  # librdkafka wants a name; nothing is committed under it
            allow_auto_create_topics=False,
            queued_max_messages_kbytes=QUEUE_KIB_MAX,
            fetch_wait_max_ms=FETCH_WAIT_MS,
        )


class _Reading(Generic[T]):
    """One topic, once."""

    def __init__(
        self, brokers: Brokers, consumer: Consumer, topic: str, parse: Callable[[Message], T | None]
    ) -> None:
        self._brokers = brokers
        self._consumer = consumer
        self._topic = topic
        self._parse = parse
        self._next: Offsets = {}
        """Of those partitions that are not at their end."""
        self._ends: Offsets = {}
        self._found: dict[int, list[T]] = {}

    def run(
        self,
        starts: Offsets,
        ends: Offsets,
        oldest: Callable[[str, Iterable[int]], Offsets],
        require: Callable[[str], object],
    ) -> list[T]:
        """`require` raises if the topic is not there any more."""
        self._ends = ends
        self._next = {index: start for index, start in starts.items() if 0 <= start < ends[index]}
        self._found = {index: [] for index in sorted(self._next)}
        self._assign()
        try:
            while self._next:
                if self._wait(require):
                    self._go_on(oldest(self._topic, self._next))
        finally:
            self._consumer.unassign()
        return [each for found in self._found.values() for each in found]

    def _assign(self) -> None:
        self._consumer.assign(
            [TopicPartition(self._topic, index, offset) for index, offset in self._next.items()]
        )

    def _wait(self, require: Callable[[str], object]) -> bool:
        """Reads until every partition is at its end; True if one is not where it was thought to be."""
        deadline = time.monotonic() + self._brokers.timeout_s
        silent_polls = 0
        while self._next:
            message = self._consumer.poll(POLL_S)
            if message is None:
                if time.monotonic() >= deadline:
                    where = f"nothing came from partitions {sorted(self._next)}"
                    raise DataNotAvailableError(f"{where} for {self._brokers.timeout_s:g} s")
                silent_polls += 1
                if silent_polls % SILENT_POLLS_MAX == 0:
                    require(self._topic)
                continue
            error = message.error()
            if error is None:
                self._take(message)
                deadline = time.monotonic() + self._brokers.timeout_s
            elif error.code() in _OUT_OF_RANGE:
                return True
            else:
                self._note(error, message.partition())
        return False

    def _take(self, message: Message) -> None:
        index, offset = message.partition(), message.offset()
        assert index is not None
        assert offset is not None
        end = self._ends[index]
        if index not in self._next or offset >= end:
            self._next.pop(index, None)
            return
        found = self._parse(message)
        if found is not None:
            self._found[index].append(found)
        if offset + 1 < end:
            self._next[index] = offset + 1
        else:
            del self._next[index]

    def _note(self, error: KafkaError, partition: int | None) -> None:
        """An event that is not a record."""
        if error.code() == KafkaError._PARTITION_EOF:
            assert partition is not None
            self._next.pop(partition, None)
        elif not passes(error):
            failure = as_error(error, f"topic {self._topic!r} cannot be read")
            if isinstance(failure, TopicNotFoundError | NotAuthorizedError):
                raise failure
            raise DataNotAvailableError(f"partition {partition}: {error_line(error)}")

    def _go_on(self, oldest: Offsets) -> None:
        """The oldest records were removed while they were waited for."""
        moved = {index: max(offset, oldest[index]) for index, offset in self._next.items()}
        self._next = {index: offset for index, offset in moved.items() if offset < self._ends[index]}
        self._assign()


def _start(since_ms: int | None) -> OffsetSpec:
    return _OLDEST if since_ms is None else OffsetSpec.for_timestamp(since_ms)
