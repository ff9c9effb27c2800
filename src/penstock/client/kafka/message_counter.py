"""How many messages of a topic lie between a consumer and the ends of the logs, exactly.

Offsets do not tell: markers of transactions have some, and so have messages that were aborted or compacted.
So what lies in between is read and counted, by a client of librdkafka of its own. What was counted is
remembered while the consumer goes through it: each message is counted once, however often the question comes.

A compacted topic forgets messages anywhere in its log. There everything is counted anew each time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from penstock.client.kafka.cluster import REQUEST_S_MAX
from penstock.client.kafka.failures import UNKNOWN_TOPIC, as_error, passes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client.kafka.cluster import Cluster

POLL_S: Final = 0.1
MESSAGES_AT_ONCE: Final = 1_000
QUEUE_KIB_MAX: Final = 8 * 1024
"""What librdkafka fetches ahead to be counted."""


class MovedError(Exception):
    """A log does not hold any more what was to be counted."""


@dataclass(slots=True)
class _Counted:
    position: int
    end: int
    messages: int
    """At or after the position and before the end."""


class MessageCounter:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._counted: dict[int, _Counted] = {}
        self._reader: Consumer | None = None

    def take(self, index: int, offset: int) -> None:
        """The message at `offset` is no longer left."""
        counted = self._counted.get(index)
        if counted is None:
            return
        if counted.position <= offset < counted.end:
            counted.position = offset + 1
            counted.messages -= 1
        else:
            del self._counted[index]

    def forget(self) -> None:
        """The consumer has jumped, or a topic was made anew."""
        self._counted.clear()

    def count(self, positions: Mapping[int, int], ends: Mapping[int, int]) -> int:
        """MovedError, and PenstockError."""
        if any(position < ends[index] for index, position in positions.items()) and self._is_compacted():
            self.forget()
        for index, position in positions.items():
            counted = self._counted.get(index)
            # Between the two positions there is nothing that is a message.
            if counted is not None and counted.position <= position < counted.end:
                counted.position = position
            else:
                self._counted[index] = _Counted(position, position, 0)
        behind = {index: end for index, end in ends.items() if self._counted[index].end < end}
        if behind:
            self._read_to(behind)
        return sum(self._counted[index].messages for index in positions)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _is_compacted(self) -> bool:
        """Also if the cluster does not tell."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)

        def request() -> bool:
            asked = self._cluster.admin().describe_configs([resource], request_timeout=REQUEST_S_MAX)
            (future,) = asked.values()
            try:
                return "compact" in (future.result()["cleanup.policy"].value or "")
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    return True
                raise

        return self._cluster.ask(request, f"the settings of topic {self._topic!r} are not known")

    def _read_to(self, ends: dict[int, int]) -> None:
        if self._reader is None:
            # librdkafka wants a name; nothing is committed under it.
            self._reader = self._cluster.reader("penstock-consumer", queued_max_messages_kbytes=QUEUE_KIB_MAX)
        reader = self._reader
        reader.assign([TopicPartition(self._topic, index, self._counted[index].end) for index in ends])
        deadline = time.monotonic() + self._cluster.timeout_s
        try:
            while ends:
                found = reader.consume(MESSAGES_AT_ONCE, POLL_S)
                for each in found:
                    self._take_in(each, ends)
                if found:
                    deadline = time.monotonic() + self._cluster.timeout_s
                elif time.monotonic() >= deadline:
                    raise self._cluster.silence(f"topic {self._topic!r} cannot be counted")
        finally:
            reader.unassign()

    def _take_in(self, found: Message, ends: dict[int, int]) -> None:
        """What librdkafka tells; `ends` loses the partitions that are counted to their end."""
        error = found.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                self.forget()
                raise MovedError
            if passes(error) or error.code() in UNKNOWN_TOPIC:
                return
            raise as_error(error, f"topic {self._topic!r} cannot be counted")
        index, offset = found.partition(), found.offset()
        assert index is not None
        assert offset is not None
        end = ends.get(index)
        if end is None:
            return  # it was counted to its end, and librdkafka goes on while others are not
        counted = self._counted[index]
        if error is None and offset < end:
            counted.messages += 1
            counted.end = offset + 1
        else:
            counted.end = end
        if counted.end >= end:
            del ends[index]
