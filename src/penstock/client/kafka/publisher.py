"""Putting messages in transactions that also carry their numbers.

What is known of a topic's numbers is forgotten before a transaction begins, and known again when it is
committed. So after a failure of any kind the next attempt, of this put or of a later one, reads them first,
and finds the message or not. A put keeps the number that it was given for its first attempt.
"""

from __future__ import annotations

import secrets
import threading
import zlib
from typing import TYPE_CHECKING

from penstock.client.errors import OutcomeUnknownError, PublisherFencedError
from penstock.client.kafka.durable_topics import ensure_topic, partitions
from penstock.client.kafka.group_offsets import group_offsets
from penstock.client.kafka.raw.requests import GroupOffset
from penstock.client.kafka.transactional import Transactional
from penstock.client.pubsub.messages import Outgoing, Put, headers_of, name_of
from penstock.client.pubsub.numbering import Numbering, newest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client.kafka.cluster import Cluster
    from penstock.client.pubsub.messages import Partition


class KafkaPublisher:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._me = secrets.token_hex(4)
        fenced = f"publisher {name!r} was replaced by another one with this id: it can put no more"
        self._link = Transactional(cluster, name_of("publisher", name), lambda: PublisherFencedError(fenced))
        self._numberings: dict[str, Numbering] = {}
        self._written_by: dict[str, str] = {}
        self._lock = threading.Lock()
        self._link.is_replaced = self._is_replaced
        self._link.insist(lambda _: self._look_around(), f"publisher {name!r} cannot be opened")

    def put(self, topic: str, values: Sequence[bytes], seq: int | None, key: bytes | None) -> list[Put]:
        if not values:
            return []
        wanted = seq
        failed = f"a message to topic {topic!r} was not stored"
        unknown = f"it is not known whether a message to topic {topic!r} is stored"

        def work(deadline: float) -> list[Put]:
            nonlocal wanted
            numbering = self._numbering(topic)
            if seq is None and wanted is not None and wanted > numbering.seq + 1:
                wanted = None  # the topic was deleted since, and all numbers went with it
            wanted, stored = numbering.plan(topic, wanted, len(values))
            known = numbering.puts(wanted, stored)
            return known + self._store(topic, numbering, values[stored:], key, deadline)

        with self._lock:
            try:
                return self._link.insist(work, failed, unknown)
            except OutcomeUnknownError as error:
                if wanted is None:  # it is the message before this one of which nothing is known
                    raise self._cluster.silence(failed) from error
                raise OutcomeUnknownError(error.what, wanted) from error

    def last_seq(self, topic: str) -> int:
        def work(_: float) -> int:
            return 0 if partitions(self._cluster, topic) is None else self._numbering(topic).seq

        with self._lock:
            return self._link.insist(work, f"the last number in topic {topic!r} is not known")

    def close(self) -> None:
        with self._lock:
            self._link.close()

    def _store(
        self, topic: str, numbering: Numbering, values: Sequence[bytes], key: bytes | None, deadline: float
    ) -> list[Put]:
        if not values:
            return []
        first, home = numbering.seq + 1, (topic, numbering.partition)
        outgoing = [
            (home, Outgoing(topic, value, key, headers_of(self._name, number)))
            for number, value in enumerate(values, first)
        ]
        del self._numberings[topic]

        def positions(offsets: list[int]) -> dict[Partition, GroupOffset]:
            metadata = numbering.after(offsets, self._me).metadata()
            return {home: GroupOffset(offsets[-1] + 1, metadata)}

        offsets = self._link.transact(outgoing, positions, deadline)
        self._numberings[topic] = numbering.after(offsets, self._me)
        return [Put(number, offset, numbering.partition) for number, offset in enumerate(offsets, first)]

    def _look_around(self) -> None:
        """Who wrote last, in every topic: from here on that is nobody but this publisher."""
        self._written_by = self._writers()

    def _is_replaced(self) -> bool:
        return any(self._is_strange(topic, by) for topic, by in self._writers().items())

    def _is_strange(self, topic: str, by: str) -> bool:
        return by not in (self._me, self._written_by.get(topic, ""))

    def _writers(self) -> dict[str, str]:
        return {topic: newest(metadata, 0).by for topic, metadata in self._states().items()}

    def _states(self) -> dict[str, dict[int, str | None]]:
        """What is kept for each topic, by partition."""
        topics: dict[str, dict[int, str | None]] = {}
        for (topic, index), each in group_offsets(self._link.brokers, self._link.name).items():
            topics.setdefault(topic, {})[index] = each.metadata
        return topics

    def _numbering(self, topic: str) -> Numbering:
        if topic not in self._numberings:
            indexes = ensure_topic(self._cluster, topic)
            home = indexes[zlib.crc32(self._name.encode()) % len(indexes)]
            found = newest(self._states().get(topic, {}), home)
            if self._is_strange(topic, found.by):
                raise self._link.fence()
            self._numberings[topic] = found
        return self._numberings[topic]
