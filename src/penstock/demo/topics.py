"""The demo's topics, read back past the gateway and past Spark: the log's own word for the verdict.

A position that was written twice is twice in one partition, because its quadrant and its car choose that. So
one topic after the other is looked through, and only its own positions are remembered meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from penstock.client.errors import InvalidMessageError, PenstockError
from penstock.client.kafka.cluster import Cluster
from penstock.client.kafka.topic_clusters import TopicClusters
from penstock.demo.plan import OWN_CAR
from penstock.demo.verdict import Cells, Log
from penstock.traffic.heat import HeatCell, Totals, parse_heat
from penstock.traffic.log_reader import LogReader
from penstock.traffic.topics import HEATMAP, QUADRANT_PATTERN

if TYPE_CHECKING:
    from confluent_kafka import Message

READ_S_MAX: Final = 15.0
"""For an answer, or for the next record."""
RECORDS_MAX: Final = 10_000_000
"""An hour and a half of the demo's cars: looking through more takes longer than anybody waits."""


class Topics(Protocol):
    """None: not all that was ever written can be read."""

    def log(self) -> Log | None: ...

    def cells(self) -> Cells | None: ...


class KafkaTopics:
    def __init__(self, bootstrap: str, answer_s_max: float = READ_S_MAX) -> None:
        self._bootstrap = bootstrap
        self._answer_s_max = answer_s_max

    def log(self) -> Log | None:
        tally = LogTally()
        return tally.log() if self._read(QUADRANT_PATTERN, tally.take, tally.begin_topic) else None

    def cells(self) -> Cells | None:
        tally = CellTally()
        return tally.cells() if self._read(re.escape(HEATMAP), tally.take) else None

    def _read(
        self, pattern: str, take: Callable[[Any, Any], None], begin_topic: Callable[[], None] = lambda: None
    ) -> bool:
        """Whether `take` has got key and value of every record that these topics ever had."""
        left = RECORDS_MAX
        begun: set[int | None] = set()

        def each(message: Message) -> None:
            nonlocal left
            left -= 1
            is_oldest_gone = message.partition() not in begun and message.offset() != 0
            if left < 0 or is_oldest_gone:
                raise IncompleteError
            begun.add(message.partition())
            take(message.key(), message.value())

        try:
            with reader(self._bootstrap, self._answer_s_max) as (brokers, log):
                there = brokers.ask(brokers.metadata, "the topics are not known").topics
                for topic in sorted(filter(re.compile(pattern).fullmatch, there)):
                    begun.clear()
                    begin_topic()
                    log.read(topic, each)
        except (PenstockError, IncompleteError):
            return False
        return True


class IncompleteError(Exception):
    """The oldest records are gone, or there are too many."""


@contextmanager
def reader(bootstrap: str, answer_s_max: float) -> Iterator[tuple[Cluster, LogReader]]:
    brokers = Cluster(bootstrap, answer_s_max)
    log = LogReader(brokers, TopicClusters(brokers))
    try:
        yield brokers, log
    finally:
        log.close()


class LogTally:
    """Records of the quadrants, topic after topic."""

    def __init__(self) -> None:
        self._records = self._repeated = self._cars = self._cars_repeated = 0
        self._seen: set[int] = set()
        """Hashes of 64 bits, as in the job: a false one is expected once in centuries."""

    def begin_topic(self) -> None:
        self._seen = set()

    def take(self, _: Any, value: Any) -> None:
        self._records += 1
        try:
            position = orjson.loads(value)
            car, ts = str(position["car"]), int(position["ts"])
        except (KeyError, TypeError, ValueError):  # not a position: what is wrong with it is for the job
            return
        is_own = OWN_CAR.fullmatch(car) is not None
        self._cars += is_own
        key = hash((car, ts))
        if key in self._seen:
            self._repeated += 1
            self._cars_repeated += is_own
        else:
            self._seen.add(key)

    def log(self) -> Log:
        return Log(self._records, self._repeated, self._cars, self._cars_repeated)


class CellTally:
    """Records of the heat map: the newest of each key counts, and totals end a batch."""

    def __init__(self) -> None:
        self._newest: dict[Any, int] = {}
        self._found = Cells(0, 0)
        self._sum = 0

    def take(self, key: Any, value: Any) -> None:
        try:
            found = parse_heat(key, value)
        except InvalidMessageError:  # somebody else's
            return
        if isinstance(found, HeatCell):
            self._sum += found.count - self._newest.get(key, 0)
            self._newest[key] = found.count
        elif isinstance(found, Totals):
            self._found = Cells(self._sum, found.counted)

    def cells(self) -> Cells:
        return self._found
