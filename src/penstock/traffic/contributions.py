"""What others know of a car's contributions, and what this client tells them.

A client knows its own writes. For a car that has restarted, or that has written through a gateway, the topic
`traffic.contributions` is read. It is written after the positions are acknowledged, and not in their way: a
record that cannot be written now is made good by the next one, a third of the window later.

How long the window is, the cluster is asked, once a minute. As long as it does not answer, what was known of
it counts, and at first the default.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.client.errors import InvalidMessageError, PenstockError
from penstock.client.kafka.topic_clusters import TopicClusters
from penstock.traffic.city_map import current_window
from penstock.traffic.log_reader import LogReader
from penstock.traffic.participation import Participation, contribution_value, parse_contribution, window_ms_of
from penstock.traffic.topics import CONTRIBUTIONS, SHARED_PLANS
from penstock.traffic.writer import RecordWriter

if TYPE_CHECKING:
    from collections.abc import Collection

    from confluent_kafka import Message

    from penstock.client.kafka.cluster import Cluster as Brokers

RECORD_S_MAX: Final = 5.0
"""For so long a write waits at most for the record of its contribution, and for the window of the rule."""
RULE_MS: Final = 60_000
"""How long the window that was told last counts, before it is asked for again."""

log = logging.getLogger("penstock.traffic")


class Contributions:
    """May be used by several threads."""

    def __init__(self, brokers: Brokers, clusters: TopicClusters, reader: LogReader) -> None:
        self._brokers = brokers
        self._clusters = clusters
        self._reader = reader
        self._participation = Participation()
        self._asks_at_ms = 0
        self._writer: RecordWriter | None = None
        self._lock = threading.Lock()
        """For the participation."""
        self._opening = threading.Lock()
        """For the writer."""
        self._asking = threading.Lock()
        """For the window, before the one for the participation."""

    def record(self, cars: Collection[str], now_ms: int) -> None:
        """These cars have contributed."""
        self._ask_for_window(now_ms)
        with self._lock:
            due = self._participation.due(cars, now_ms)
        if not due:
            return
        value = contribution_value(now_ms)
        try:
            self._open().write([(CONTRIBUTIONS, [(car, value) for car in due])])
        except PenstockError as error:
            self.close()  # whoever opens it again looks whether the topic is there
            log.info("contributions of %d cars are not recorded yet: %s", len(due), error)

    def may_read(self, car: str, now_ms: int) -> bool:
        self._ask_for_window(now_ms)
        with self._lock:
            allowed = self._participation.may_read(car, now_ms)
        if allowed:
            return True
        for contributed_ms in self._recorded(car, now_ms):
            with self._lock:
                self._participation.contributed(car, contributed_ms)
        with self._lock:
            return self._participation.may_read(car, now_ms)

    def close(self) -> None:
        """Until it is used again."""
        with self._opening:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _ask_for_window(self, now_ms: int) -> None:
        with self._asking:
            if now_ms < self._asks_at_ms:
                return
            self._asks_at_ms = now_ms + RULE_MS
            brokers = self._brokers.with_timeout(min(RECORD_S_MAX, self._brokers.timeout_s))
            clusters = TopicClusters(brokers)
            try:
                with closing(LogReader(brokers, clusters)) as reader:
                    window_s = current_window(clusters, reader)
            except PenstockError as error:
                log.info("the rule of participation is not known yet: %s", error)
                return
            with self._lock:
                self._participation.window_ms = window_ms_of(window_s)

    def _open(self) -> RecordWriter:
        with self._opening:
            if self._writer is None:
                brokers = self._brokers.with_timeout(min(RECORD_S_MAX, self._brokers.timeout_s))
                TopicClusters(brokers).ensure([SHARED_PLANS[CONTRIBUTIONS]])
                # To say twice that a car has contributed says the same, and begins to work at once.
                self._writer = RecordWriter(brokers, exactly_once=False)
            return self._writer

    def _recorded(self, car: str, now_ms: int) -> list[int]:
        if not self._clusters.exists(CONTRIBUTIONS):
            return []
        key = car.encode()

        def parse(message: Message) -> int | None:
            if message.key() != key:
                return None
            try:
                contributed_ms = parse_contribution(key, message.value())[1]
                # Anybody can write to a topic, and nobody can contribute later than that.
                return min(contributed_ms, message.timestamp()[1], now_ms)
            except InvalidMessageError:
                return None  # says nothing about this car

        # Brokers and clients have clocks of their own; the time that counts is in the record.
        since_ms = max(0, now_ms - 2 * self._participation.window_ms)
        return self._reader.read(CONTRIBUTIONS, parse, since_ms=since_ms)
