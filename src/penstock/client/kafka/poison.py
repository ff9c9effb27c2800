"""Looking at what comes next in a partition without librdkafka."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from penstock.client.kafka.raw.brokers import Brokers, check
from penstock.client.kafka.raw.requests import READ_COMMITTED, READ_UNCOMMITTED, fetch
from penstock.kafka.committed import Aborted, DamagedError, open_fetched
from penstock.kafka.front import Front, front_of

if TYPE_CHECKING:
    from penstock.client.pubsub.messages import Partition

LOOK_S_MAX: Final = 3.0
"""For so long, aborted transactions are walked through to find what is behind them."""


def look(bootstrap: str, partition: Partition, offset: int, told: int | None, *, committed: bool) -> Front:
    """What is at `offset`, as its leader says. Raises KafkaException."""
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
    deadline = time.monotonic() + LOOK_S_MAX
    with closing(Brokers(bootstrap)) as brokers:
        while True:
            answer = brokers.ask_leader(partition, fetch(partition, offset, isolation))
            check(answer.error)
            aborted = [Aborted(first, producer) for producer, first in answer.aborted]
            try:
                fetched = open_fetched(partition[1], offset, answer.records, aborted, end=-1, log_start=-1)
            except DamagedError as error:
                raise KafkaException(KafkaError(KafkaError._BAD_MSG, str(error))) from error
            found = front_of(fetched, told)
            if found.poison or found.next_offset == offset or time.monotonic() >= deadline:
                return found
            offset = found.next_offset
