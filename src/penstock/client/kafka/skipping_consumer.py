"""A consumer of librdkafka that passes over poison batches.

A poison batch has the right checksum, and records that are none. It was sent like that and stays like that.
What librdkafka does when it gets one (seen with 2.16) depends on what is wrong with it:

    records that cannot be parsed    it says nothing, and fetches the same bytes again for ever
    a payload that does not unpack   it reports _BAD_COMPRESSION, and fetches the same bytes again for ever
    one that unpacks to nothing      an assertion fails, which ends the process; so with LZ4 that ends early
    gzip that ends early             its thread unpacks for ever, and even `close` never returns

Nothing can be done here about the last two: they would have to be kept from coming into the log. For the
others, a partition that stands still before the end of its log, or of which that is reported, is looked at:
what comes next there is fetched by the protocol itself. If that is poison, it is named in the log, and
the partition is assigned again from behind it. Whoever reads sees a gap in the offsets, as compaction leaves
it. A look that was not called for costs a request and changes nothing: as long as there is something to read
before the poison, librdkafka may be about to deliver it.

Only for partitions that are assigned, each with its offset, and not for members of a group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

log = logging.getLogger(__name__)

Partition = tuple[str, int]

STANDSTILL_S: Final = 2.0
"""A partition that has moved since is not looked at. Shorter than anybody waits for messages."""
CHECK_S: Final = 0.5


@dataclass
class _Place:
    """Where a partition stands: the next message, or what is before it, is at `offset`."""

    offset: int
    since: float
    clear_to: int
    """A look has found nothing before this."""


class SkippingConsumer(Consumer):
    def __init__(
        self, settings: dict[str, Any], on_skip: Callable[[Partition, int], None] | None = None
    ) -> None:
        """`on_skip` is told, within `poll` or `consume`, where a partition goes on."""
        super().__init__(settings)
        self._bootstrap: str = settings["bootstrap.servers"]
        self._is_committed_only = settings.get("isolation.level", "read_committed") == "read_committed"
        # Looks know neither TLS nor logins, and would only leave lines in the brokers' logs.
        self._can_look = settings.get("security.protocol", "plaintext").lower() == "plaintext"
        self._on_skip = on_skip
        self._places: dict[Partition, _Place] = {}
        self._check_at = 0.0

    def poll(self, timeout: float = -1) -> Message | None:
        polled = super().poll(timeout)
        self._check_sometimes()
        return None if polled is None or self._passes_over(polled) else polled

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        polled = super().consume(num_messages, timeout)
        self._check_sometimes()
        return [each for each in polled if each.error() is None or not self._passes_over(each)]

    def _check_sometimes(self) -> None:
        now = time.monotonic()
        if now < self._check_at:
            return
        self._check_at = now + CHECK_S
        before, self._places = self._places, {}
        for partition, offset in self._offsets().items():
            place = before.get(partition)
            if place is None or place.offset != offset:
                place = _Place(offset, now, offset)
            elif now - place.since >= STANDSTILL_S and place.clear_to < self._end(partition):
                place.since = now
                self._look(partition, place)
            self._places[partition] = place

    def _offsets(self) -> dict[Partition, int]:
        """Behind the last message that was handed out, or where reading began."""
        assigned = self.assignment()
        return {
            (each.topic, each.partition): reached.offset if reached.offset >= 0 else each.offset
            for each, reached in zip(assigned, self.position(assigned), strict=True)
        }

    def _end(self, partition: Partition) -> int:
        """As the last answer to a fetch told it; less than any offset before there was one."""
        _, end = self.get_watermark_offsets(TopicPartition(*partition), cached=True)
        return int(end)

    def _passes_over(self, polled: Message) -> bool:
        """Whether it is an error that is dealt with here."""
        error = polled.error()
        if error is None or error.code() != KafkaError._BAD_COMPRESSION:
            return False
        partition, told = (polled.topic() or "", polled.partition() or 0), polled.offset() or 0
        offset = self._offsets().get(partition)
        if offset is None:
            return True
        # It may have been on its way when the batch was passed over.
        return self._look(partition, _Place(offset, 0, offset), told) or told < offset

    def _look(self, partition: Partition, place: _Place, told: int | None = None) -> bool:
        """Passes over the poison that comes next, if it does; `told` is a batch that cannot be unpacked."""
        if not self._can_look:
            return False
        # The decoder comes with the schemas of the whole protocol: 0.2 s that most clients need not spend.
        from penstock.client.kafka.poison import look

        try:
            found = look(self._bootstrap, partition, place.offset, told, committed=self._is_committed_only)
        except (KafkaException, ValueError):
            return False  # to be tried again; what cannot be read at all is for the caller to say
        place.clear_to = found.next_offset
        for batch in found.poison:
            log.warning(
                "passed over the batch at offset %d of %s-%d: %s", batch.offset, *partition, batch.reason
            )
        if not found.poison:
            return False
        self.incremental_unassign([TopicPartition(*partition)])
        self.incremental_assign([TopicPartition(*partition, found.next_offset)])
        if self._on_skip is not None:
            self._on_skip(partition, found.next_offset)
        return True
