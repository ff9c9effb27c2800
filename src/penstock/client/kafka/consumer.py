"""Reading over the Kafka protocol, message by message, as one consumer with a position of its own.

A position is the committed offset of the group `penstock-consumer-<id>`. It is committed before the message
is handed out: whoever goes on as this consumer never gets a message again. That costs a round trip for each
message, and is of use only to those who know the id. So a consumer that got a new id keeps its positions to
itself until somebody asks for the id; from then on all of them are committed.

The group has no members. Two that read with the same id at the same moment do not know of each other; the
gateway is for that.

One client of librdkafka asks and commits, and one for each topic that is read fetches ahead: answers on a
connection come in order, so that a question behind a fetch that waits for new messages would wait as well.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Final

from penstock.client.errors import NoMessageError
from penstock.client.kafka.control import Control
from penstock.client.kafka.positions import Positions
from penstock.client.kafka.topic import TopicReader
from penstock.client.types import consumer_ids, single_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client.kafka.cluster import Cluster

NEW_IDS: Final = 2**53
"""New ids are drawn from so many that no two are the same, and all of them are exact in JSON."""


class KafkaConsumer:
    def __init__(
        self, cluster: Cluster, topics: tuple[str, ...], given: int | Mapping[str, int] | None
    ) -> None:
        if given is None:
            self._id = secrets.randbelow(NEW_IDS) + 1
        else:
            self._id = single_id(consumer_ids(topics, given))
        cluster.ensure_topics(topics)
        self._control = Control(cluster, f"penstock-consumer-{self._id}")
        self._positions = Positions(self._control, remembered=given is not None)
        self._readers = {
            topic: TopicReader(cluster, self._control, self._positions, topic) for topic in topics
        }
        self._closed = False
        self._locks = {topic: threading.Lock() for topic in topics}

    @property
    def ids(self) -> Mapping[str, int]:
        return dict.fromkeys(self._readers, self._id)

    def remember(self) -> None:
        """Also after `close`, which is when some ask for the id."""
        self._positions.remember()
        if self._closed:
            self._control.close()

    def has_next(self, topic: str) -> bool:
        with self._locks[topic]:
            return self._readers[topic].peek() is not None

    def get_next(self, topic: str) -> bytes:
        with self._locks[topic]:
            message = self._readers[topic].peek()
            if message is None:
                raise NoMessageError(f"no message is left in topic {topic!r}")
            self._readers[topic].take()
            return message

    def size(self, topic: str) -> int:
        with self._locks[topic]:
            return self._readers[topic].size()

    def close(self) -> None:
        self._closed = True
        for topic, reader in self._readers.items():
            with self._locks[topic]:
                reader.close()
        self._control.close()
